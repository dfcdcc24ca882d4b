"""A verdict as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from safetyrepro.atomic import write_bytes
from safetyrepro.crosspkg.gate import Check, Verdict

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: Path, verdict: Verdict) -> None:
    """Write every check as a test case: an accepted failure skipped, with its reason, an unmeasured one an error."""
    root = ET.Element("testsuites", name="safetyrepro")
    by_place: dict[str, list[Check]] = {}
    for check in verdict.checks:
        by_place.setdefault(check.suite, []).append(check)
    for place, checks in by_place.items():
        failures = sum(check.failed and check.accepted is None for check in checks)
        skipped = sum(check.failed and check.accepted is not None for check in checks)
        unmeasured = sum(not check.measured for check in checks)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_text(place),
            tests=str(len(checks)),
            failures=str(failures),
            errors=str(unmeasured),
            skipped=str(skipped),
        )
        for check in checks:
            case = ET.SubElement(suite, "testcase", classname=_text(place), name=_text(check.name))
            if check.failed and check.accepted is None:
                ET.SubElement(case, "failure", message=_text(check.message))
            elif not check.measured:
                ET.SubElement(case, "error", message=_text(check.message))
            elif check.failed:
                ET.SubElement(case, "skipped", message=_text(f"accepted: {check.accepted}"))
    ET.indent(root)
    write_bytes(path, ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n")


def _text(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return _FORBIDDEN.sub("\ufffd", text)
