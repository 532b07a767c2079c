"""The registry of a process, each test in a process of its own, with real plugins."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from winml.modelkit.session.ep_sources import find_entries, select_entries

QNN = "QNNExecutionProvider"


@pytest.fixture(scope="module")
def qnn_library() -> str:
    entries = select_entries(find_entries(environ={}).entries, QNN, "pypi")
    if not entries or entries[0].path is None:
        pytest.skip("onnxruntime-qnn is not installed")
    return entries[0].path


def run(code: str, *arguments: str) -> str:
    head = """
        import sys
        from winml.modelkit import WinMLEPRegistry
        from winml.modelkit.errors import WinMLError
        from winml.modelkit.session.ep_sources import EPEntry
        registry = WinMLEPRegistry.get_instance()
        entry = lambda path: EPEntry("QNNExecutionProvider", path, "directory")
    """
    script = textwrap.dedent(head) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("> "))


def test_register_describe_unregister(qnn_library: str) -> None:
    out = run(
        """
        ep = registry.register_ep(entry(sys.argv[1]))
        print(">", ep.arg0, ep.version, [d.device for d in ep.devices])
        facts = ep.to_dict()
        print(">", facts["plugin_version"], sorted(facts["devices"][0]["device_facts"]))
        print(">", [row["arg0"] for row in registry.snapshot()])
        registry.unregister_ep("qnn")
        print(">", registry.snapshot())
        """,
        qnn_library,
    )
    lines = out.splitlines()
    assert lines[0].startswith("> QNNExecutionProvider 0.1.0 [")
    assert lines[1] == "> 0.1.0 ['Architecture', 'Driver', 'Name']"
    assert lines[2:] == ["> ['QNNExecutionProvider']", "> []"]


def test_a07_same_path_twice_is_silent_and_another_path_is_named(qnn_library: str, tmp_path: object) -> None:
    out = run(
        """
        first = registry.register_ep(entry(sys.argv[1]))
        print(">", registry.register_ep(entry(sys.argv[1])) is first)
        try:
            registry.register_ep(entry("/elsewhere/libonnxruntime_providers_qnn.so"))
        except WinMLError as error:
            print(">", error.cause, sys.argv[1] in error.reason)
        """,
        qnn_library,
    )
    assert out.splitlines() == ["> True", "> already_registered True"]


def test_a_device_after_unregistering_raises_our_error(qnn_library: str) -> None:
    out = run(
        """
        device = registry.register_ep(entry(sys.argv[1])).devices[0]
        registry.unregister_ep("QNNExecutionProvider")
        try:
            device.ort_device
        except WinMLError as error:
            print(">", error.code)
        try:
            registry.unregister_ep("qnn")
        except WinMLError as error:
            print(">", error.code)
        again = registry.register_ep(entry(sys.argv[1]))
        print(">", again.devices[0].ort_device.ep_name)
        """,
        qnn_library,
    )
    assert out.splitlines() == ["> device_gone", "> not_registered", "> QNNExecutionProvider"]


def test_winml_catalog_is_not_available_outside_windows() -> None:
    if sys.platform == "win32":
        pytest.skip("this is Windows")
    assert run('print(">", registry.winml_available)') == "> False"


def test_genai_that_is_not_installed_is_said(qnn_library: str) -> None:
    try:
        import onnxruntime_genai  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("onnxruntime-genai is installed")
    out = run(
        """
        try:
            registry.register_execution_providers(ort_genai=True)
        except WinMLError as error:
            print(">", error.code)
        """
    )
    assert out == "> genai_missing"
