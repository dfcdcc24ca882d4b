"""Why two runs of the same evaluation differ: classes with items, evidence, and what each can account for.

Detection is by rule on what was sent, seen and read, never by a suite's name. Each detector is one short file.
"""

from safetyrepro.crosspkg.divergence.difference import ClassFound, Difference, diff_sides
from safetyrepro.crosspkg.divergence.finding import CLASSES, Detector
from safetyrepro.crosspkg.divergence.registry import DETECTORS

__all__ = ["CLASSES", "DETECTORS", "ClassFound", "Detector", "Difference", "diff_sides"]
