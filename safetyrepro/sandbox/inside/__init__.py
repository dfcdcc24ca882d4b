"""What runs inside a box: the code on one side, its tests on the other. Standard library only."""
