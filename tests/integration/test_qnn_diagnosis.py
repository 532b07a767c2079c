"""Why QNN gives no operators, each cause provoked for real with the plugin, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import json, sys
from pathlib import Path
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_registry import WinMLEPRegistry
from winml.modelkit.session.monitor import qnn_monitor
from winml.modelkit.session.monitor.ep_monitor import TraceContext, TraceFailure
from winml.modelkit.session.session import SessionSettings, WinMLSession
import numpy as np

case, library, model, folder = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])
log = Path(sys.argv[5])
QNN = "QNNExecutionProvider"
device = WinMLEPRegistry.get_instance().register_ep(EPEntry(QNN, library, "directory")).devices[0]
if case == "invalid_level":
    qnn_monitor._QNN_LEVELS["basic"] = "banana"
if case == "own_basic":
    qnn_monitor._QNN_LEVELS["basic"] = "basic"
monitor = qnn_monitor.QNNMonitor(folder, "basic", QNN)
options = {"backend_type": "htp", **monitor.provider_options()}
if case == "option_missing":
    options = {"backend_type": "htp"}
if case == "missing_folder":
    options["profiling_file_path"] = str(folder / "not" / "there" / "p.csv")
found = TraceContext(log=log, warmup=0, iterations=2, walls_us=[1.0, 1.0])
outcome = None
with monitor:
    try:
        session = WinMLSession(model, device, SessionSettings(ep_name=QNN, ep_options=options))
    except Exception as error:
        print(json.dumps(["session", str(error)]))
        raise SystemExit
    found.session, found.placement = session.ort_session, session.placement()
    outcome = monitor.after_session(found)
    if outcome is None:
        feed = {i.name: np.zeros(i.shape, np.float32) for i in found.session.get_inputs()}
        for _ in range(2):
            found.session.run(None, feed)
        if case == "damaged":
            monitor.csv.write_text(monitor.csv.read_text() + "0,NODE,oops\\n")
        outcome = monitor.result(found)
if isinstance(outcome, TraceFailure):
    print(json.dumps([outcome.cause, outcome.evidence]))
else:
    print(json.dumps(["ok", len(outcome["ops"])]))
"""


def diagnose(case: str, library: str, model: Path, folder: Path) -> list[Any]:
    log = folder / "native.log"
    trace = folder / "trace"
    trace.mkdir()
    with log.open("wb") as sink:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, case, library, str(model), str(trace), str(log)],
            stdout=subprocess.PIPE,
            stderr=sink,
            timeout=120,
            check=False,
        )
    lines = [line for line in done.stdout.decode().splitlines() if line.startswith("[")]
    assert lines, log.read_text()
    answer: list[Any] = json.loads(lines[-1])
    return answer


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        ("plain", "ok"),
        ("option_missing", "option_not_in_session"),
        ("invalid_level", "invalid_level"),
        ("own_basic", "no_operator_rows"),
        ("damaged", "parse_error"),
        ("missing_folder", "session"),
    ],
)
def test_cause(case: str, cause: str, qnn_library: str, zoo: Any, tmp_path: Path) -> None:
    found, evidence = diagnose(case, qnn_library, zoo("qdq"), tmp_path)
    assert found == cause, evidence
    if case == "missing_folder":
        assert "profiling file" in evidence
