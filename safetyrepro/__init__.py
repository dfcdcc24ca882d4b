"""Is a safety ranking of language models a property of the models, or of the harness that scored them?"""
