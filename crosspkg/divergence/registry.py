"""All detectors, in the order that lets one cause keep one name: a later one leaves what an earlier one explains."""

from __future__ import annotations

from safetyrepro.crosspkg.divergence import (
    boilerplate,
    bos,
    candidate_texts,
    chat_template,
    dataset,
    decoding,
    gold_named,
    metric,
    normalisation,
    numerics,
    options_listed,
    reading,
    repeats,
    scoring_path,
    shots,
    truncation_output,
    truncation_sent,
    unexplained,
    whitespace,
)
from safetyrepro.crosspkg.divergence.finding import Detector

DETECTORS: tuple[Detector, ...] = (
    chat_template.DETECTOR,
    truncation_sent.DETECTOR,
    bos.DETECTOR,
    dataset.DETECTOR,
    shots.DETECTOR,
    options_listed.DETECTOR,
    boilerplate.DETECTOR,
    whitespace.DETECTOR,
    scoring_path.DETECTOR,
    candidate_texts.DETECTOR,
    decoding.DETECTOR,
    reading.ECHO,
    reading.READING,
    truncation_output.DETECTOR,
    gold_named.DETECTOR,
    normalisation.DETECTOR,
    metric.DEFINITION,
    metric.WEIGHTING,
    repeats.CACHE,
    repeats.NONDETERMINISM,
    numerics.DETECTOR,
    decoding.NO_EFFECT,
    unexplained.DETECTOR,
)
