"""The gate's verdicts as JUnit XML, which release pipelines read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(name: str, gates: Sequence[tuple[str, Mapping[str, Any], str]]) -> str:
    """A test suite with one test per configuration: FAIL is a failure, INCONCLUSIVE an error, so that neither passes.

    Args:
        name: the update.
        gates: configuration, gate as flips.json holds it, and its verdict in words.
    """
    failed = sum(gate["verdict"] == "FAIL" for _, gate, _ in gates)
    unclear = sum(gate["verdict"] == "INCONCLUSIVE" for _, gate, _ in gates)
    counts = {"tests": str(len(gates)), "failures": str(failed), "errors": str(unclear)}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": _clean(f"flips {name}"), **counts})
    for label, gate, words in gates:
        case = SubElement(
            suite, "testcase", {"classname": "flips", "name": _clean(f"{gate['metric']} {label}".strip())}
        )
        if gate["verdict"] == "FAIL":
            SubElement(case, "failure", {"message": _clean(words), "type": "FAIL"})
        elif gate["verdict"] == "INCONCLUSIVE":
            SubElement(case, "error", {"message": _clean(words), "type": "INCONCLUSIVE"})
        else:
            SubElement(case, "system-out").text = _clean(words)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    return _NOT_XML.sub("�", text)
