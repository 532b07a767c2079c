"""What names of EPs and devices mean."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.errors import ImpossibleTarget, UnknownEP, UsageError
from winml.modelkit.session.ep_device import (
    DEVICES,
    EP_DEVICE_SPECS,
    SOURCES,
    VALID_EPS,
    EPDeviceSpec,
    EPDeviceTarget,
    aliases,
    check_ep_options,
    find_spec,
    normalise_device,
    preferred_eps,
    resolve_target,
    with_device,
)

ALIASES = {
    "qnn": "QNNExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "vitisai": "VitisAIExecutionProvider",
    "nv_tensorrt_rtx": "NvTensorRTRTXExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider",
    "dml": "DmlExecutionProvider",
    "webgpu": "WebGpuExecutionProvider",
    "cpu": "CPUExecutionProvider",
}

PAIRS = {
    "qnn": {"npu", "gpu"},
    "openvino": {"npu", "gpu", "cpu"},
    "vitisai": {"npu"},
    "nv_tensorrt_rtx": {"gpu"},
    "cuda": {"gpu"},
    "migraphx": {"gpu"},
    "dml": {"gpu"},
    "webgpu": {"gpu"},
    "cpu": {"cpu"},
}


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_short_and_canonical_names_are_one_in_any_case(alias: str, name: str) -> None:
    for form in (alias, alias.upper(), alias.title(), name, name.upper(), name.lower(), f" {alias} "):
        assert find_spec(form).name == name, form


@given(st.sampled_from(sorted([*ALIASES, *ALIASES.values()])), st.randoms())
def test_any_mixture_of_cases_is_the_same_name(name: str, chance: random.Random) -> None:
    mixed = "".join(chance.choice((char.lower(), char.upper())) for char in name)
    assert find_spec(mixed) is find_spec(name)


@pytest.mark.parametrize(
    ("word", "alias"),
    [
        ("DirectML", "dml"),
        ("ov", "openvino"),
        ("TensorRT-RTX", "nv_tensorrt_rtx"),
        ("trt_rtx", "nv_tensorrt_rtx"),
        ("NvTensorRtRtx", "nv_tensorrt_rtx"),
        ("qnn_execution_provider", "qnn"),
        ("Web-GPU", "webgpu"),
    ],
)
def test_words_of_other_tools(word: str, alias: str) -> None:
    assert find_spec(word).alias == alias


@pytest.mark.parametrize(
    ("word", "meant"),
    [("openvno", "openvino"), ("qn", "qnn"), ("OpenVIN0ExecutionProvider", "openvino"), ("vitsai", "vitisai")],
)
def test_misspelled_names_are_refused_with_a_suggestion(word: str, meant: str) -> None:
    with pytest.raises(UnknownEP) as caught:
        resolve_target(word)
    assert caught.value.exit_code == 2
    assert f"unknown EP {word!r}. Did you mean {meant!r}?" in caught.value.reason
    assert all(alias in str(caught.value.hint) for alias in ALIASES)


@pytest.mark.parametrize("word", ["zzz", "", "ExecutionProvider", "@directory", "..", "qnn,cpu"])
def test_other_words_never_become_the_cpu(word: str) -> None:
    with pytest.raises(UnknownEP):
        resolve_target(word)


@given(st.text(max_size=30))
def test_every_text_is_a_known_name_or_a_usage_error(word: str) -> None:
    try:
        target = resolve_target(word)
    except UsageError:
        return
    assert target.ep is None or target.ep in EP_DEVICE_SPECS


def test_valid_eps_holds_both_forms() -> None:
    assert set(ALIASES) | set(ALIASES.values()) <= VALID_EPS


def test_the_table_is_complete_and_sound() -> None:
    assert {spec.alias: spec.name for spec in EP_DEVICE_SPECS.values()} == ALIASES
    for name, spec in EP_DEVICE_SPECS.items():
        assert spec.name == name
        assert spec.install
        assert spec.hardware
        assert spec.devices and set(spec.devices) <= set(DEVICES)
        assert set(spec.device_options) <= set(spec.options)
        assert set(spec.emulates) <= set(spec.devices)
        for device, options in spec.default_options.items():
            assert check_ep_options(spec, options, device) == []


def test_meta_eps_are_no_eps() -> None:
    assert "OpenVINOExecutionProvider.AUTO" not in EP_DEVICE_SPECS
    with pytest.raises(UnknownEP):
        find_spec("OpenVINOExecutionProvider.AUTO")


def test_library_names_by_platform() -> None:
    spec = find_spec("qnn")
    assert spec.library_file_names("linux") == ("libonnxruntime_providers_qnn.so",)
    assert spec.library_file_names("win32") == ("onnxruntime_providers_qnn.dll",)


def test_a_spec_without_a_device_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        EPDeviceSpec("XExecutionProvider", "x", "X", ())
    with pytest.raises(ValueError, match="needs a name"):
        EPDeviceSpec("XExecutionProvider", "x", "X", ("tpu",))


# --- targets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alias", ALIASES)
@pytest.mark.parametrize("device", ["npu", "gpu", "cpu"])
def test_exact_pairs_only(alias: str, device: str) -> None:
    if device in PAIRS[alias]:
        target = resolve_target(alias.upper(), device.upper())
        assert target == EPDeviceTarget(ALIASES[alias], device)
        return
    with pytest.raises(ImpossibleTarget) as caught:
        resolve_target(alias, device)
    assert caught.value.exit_code == 2
    for served in PAIRS[alias]:
        assert served in caught.value.reason
    for other, devices in PAIRS.items():
        if device in devices:
            assert other in str(caught.value.hint)


@pytest.mark.parametrize("ep", [None, "auto", "AUTO", " Auto "])
@pytest.mark.parametrize("device", [None, "auto", "Auto "])
def test_omitted_means_auto(ep: str | None, device: str | None) -> None:
    target = resolve_target(ep, device)
    assert target == EPDeviceTarget()
    assert target.is_open
    assert target.spec is None
    assert not resolve_target("cpu").is_open
    assert not resolve_target(None, "cpu").is_open


@pytest.mark.parametrize(
    ("word", "meant"), [("nup", "npu"), ("gup", "gpu"), ("tpu", None), ("", None), ("cuda:0", None)]
)
def test_unknown_devices(word: str, meant: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        normalise_device(word)
    assert caught.value.code == "unknown_device"
    if meant:
        assert f"Did you mean {meant!r}?" in caught.value.reason


def test_order_of_automatic_choice() -> None:
    assert [spec.alias for spec in preferred_eps("npu")] == ["qnn", "openvino", "vitisai"]
    assert preferred_eps("cpu")[0].alias == "cpu"
    assert {spec.alias for spec in preferred_eps("gpu")} == {a for a, devices in PAIRS.items() if "gpu" in devices}


@pytest.mark.parametrize("source", SOURCES)
def test_a_pinned_source(source: str) -> None:
    target = resolve_target(f"OpenVINO@{source.upper()}", "cpu")
    assert target == EPDeviceTarget("OpenVINOExecutionProvider", "cpu", source)
    assert target.describe() == f"openvino@{source} on cpu"


@pytest.mark.parametrize(
    ("word", "code"),
    [("openvino@pipy", "unknown_source"), ("openvino@", "unknown_source"), ("auto@pypi", "source_without_ep")],
)
def test_pins_that_mean_nothing(word: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_target(word)
    assert caught.value.code == code


def test_suggested_source() -> None:
    with pytest.raises(UsageError, match="Did you mean 'pypi'"):
        resolve_target("openvino@pypy")


def test_descriptions() -> None:
    assert resolve_target("qnn", "npu").describe() == "qnn on npu"
    assert resolve_target().describe() == "any EP on any device"
    assert with_device(resolve_target("qnn"), "gpu") == resolve_target("qnn", "gpu")
    assert aliases(["QNNExecutionProvider", "AzureExecutionProvider"]) == ["qnn", "AzureExecutionProvider"]


def test_emulate_is_for_an_ep_that_has_an_emulator() -> None:
    assert resolve_target("qnn", "npu", emulate=True) == EPDeviceTarget("QNNExecutionProvider", "npu", None, True)
    assert resolve_target("qnn", emulate=True).device == "npu"
    for ep, device, code in (
        ("openvino", "npu", "no_emulator"),
        ("cpu", None, "no_emulator"),
        ("qnn", "gpu", "no_emulator"),
        (None, None, "emulate_without_ep"),
        (None, "npu", "emulate_without_ep"),
    ):
        with pytest.raises(UsageError) as caught:
            resolve_target(ep, device, emulate=True)
        assert caught.value.code == code


# --- provider options -----------------------------------------------------------------------------------------


def test_options_that_are_known_pass() -> None:
    assert check_ep_options(find_spec("qnn"), {"htp_performance_mode": "burst", "vtcm_mb": "8"}, "npu") == []
    assert check_ep_options(find_spec("openvino"), {"num_of_threads": "2"}, "cpu") == []
    assert check_ep_options(find_spec("vitisai"), {}, "npu") == []


@pytest.mark.parametrize(
    ("ep", "options", "code", "words"),
    [
        ("qnn", {"htp_performance_mod": "burst"}, "unknown_ep_option", "Did you mean 'htp_performance_mode'"),
        ("qnn", {"HTP_ARCH": "73"}, "unknown_ep_option", "no option 'HTP_ARCH'"),
        ("qnn", {"htp_performance_mode": "fast"}, "bad_ep_option", "does not take 'fast'"),
        ("openvino", {"num_threads": "2"}, "unknown_ep_option", "Did you mean 'num_of_threads'"),
        ("cpu", {"device_type": "CPU"}, "unknown_ep_option", "no option"),
    ],
)
def test_misspelled_options_and_wrong_values_are_refused(
    ep: str, options: dict[str, str], code: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_ep_options(find_spec(ep), options, None)
    assert caught.value.code == code
    assert words in caught.value.reason


@pytest.mark.parametrize(
    ("ep", "options", "device"),
    [
        ("openvino", {"device_type": "NPU"}, "cpu"),
        ("openvino", {"device_type": "HETERO:GPU,CPU"}, "gpu"),
        ("openvino", {"device_type": "NPU"}, None),
        ("qnn", {"backend_type": "cpu"}, "npu"),
        ("qnn", {"backend_path": "/x/libQnnCpu.so"}, "npu"),
    ],
)
def test_options_that_choose_another_device_are_refused(ep: str, options: dict[str, str], device: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        check_ep_options(find_spec(ep), options, device)
    assert caught.value.code == "device_option"


def test_options_that_choose_the_same_device_pass() -> None:
    assert check_ep_options(find_spec("openvino"), {"device_type": "CPU"}, "cpu") == []
    assert check_ep_options(find_spec("qnn"), {"backend_type": "htp"}, "npu") == []


def test_options_of_an_ep_whose_options_are_unknown_are_passed_on_with_a_warning() -> None:
    (warning,) = check_ep_options(find_spec("vitisai"), {"anything": "1"}, "npu")
    assert "unchecked" in warning


# --- third parties --------------------------------------------------------------------------------------------

_ASK = """
import json
from winml.modelkit.session import ep_device
from winml.modelkit.session.ep_sources import find_entries
target = ep_device.resolve_target("ACME", "npu")
print(json.dumps({
    "acme": [target.ep, target.device],
    "valid": sorted(ep_device.VALID_EPS & {"acme", "AcmeExecutionProvider", "second"}),
    "qnn_vendor": ep_device.find_spec("qnn").vendor,
    "problems": list(ep_device.spec_problems()),
    "npu": [spec.alias for spec in ep_device.preferred_eps("npu")],
    "entries": [[entry.ep_name, entry.source] for entry in find_entries(environ={}).entries],
}))
"""


@pytest.fixture(scope="module")
def with_third_parties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that has four third parties' distributions on its path, three of them at fault."""
    site = tmp_path_factory.mktemp("site")
    row = "EPDeviceSpec('{0}', '{1}', '{2}', ('npu',), libraries=('onnxruntime_providers_{1}',))"
    modules = {
        "acme_ep": f"SPEC = {row.format('AcmeExecutionProvider', 'acme', 'Acme')}\n"
        f"SPECS = [{row.format('SecondExecutionProvider', 'second', 'Acme')}]",
        "broken_ep": "raise RuntimeError('licence server is down')",
        "wrong_ep": "SPEC = ['not a spec']",
        "thief_ep": f"SPEC = {row.format('QNNExecutionProvider', 'qnn', 'Thief')}",
    }
    points = {
        "acme_ep": ["one = acme_ep:SPEC", "two = acme_ep:SPECS"],
        "broken_ep": ["bad = broken_ep:SPEC", "gone = acme_ep:NO_SUCH_NAME"],
        "wrong_ep": ["bad = wrong_ep:SPEC"],
        "thief_ep": ["bad = thief_ep:SPEC"],
    }
    for name, text in modules.items():
        source = f"from winml.modelkit.session.ep_spec import EPDeviceSpec\n{text}\n"
        (site / f"{name}.py").write_text(source, encoding="utf-8")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "RECORD").write_text(f"{name}.py,,\n", encoding="utf-8")
        lines = "\n".join(["[winml.ep_specs]", *points[name]])
        (info / "entry_points.txt").write_text(f"{lines}\n", encoding="utf-8")
    plugin = site / "onnxruntime_ep_acme"
    plugin.mkdir()
    file = "onnxruntime_providers_acme.dll" if sys.platform == "win32" else "libonnxruntime_providers_acme.so"
    (plugin / file).write_bytes(b"")
    info = site / "onnxruntime_ep_acme-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text(f"onnxruntime_ep_acme/{file},,\n", encoding="utf-8")
    path = os.pathsep.join([str(site), *(item for item in sys.path if item)])
    ran = subprocess.run(
        [sys.executable, "-c", _ASK],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(sys.executable).parent,
        env={**os.environ, "PYTHONPATH": path},
    )
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_a_third_party_adds_its_eps_by_the_entry_point_group(with_third_parties: dict[str, Any]) -> None:
    assert with_third_parties["acme"] == ["AcmeExecutionProvider", "npu"]
    assert with_third_parties["valid"] == ["AcmeExecutionProvider", "acme", "second"]
    assert with_third_parties["npu"] == ["qnn", "openvino", "vitisai", "acme", "second"]


def test_its_plugin_is_found_by_the_name_its_row_gives(with_third_parties: dict[str, Any]) -> None:
    assert ["AcmeExecutionProvider", "pypi"] in with_third_parties["entries"]


def test_a_broken_third_party_costs_only_its_row(with_third_parties: dict[str, Any]) -> None:
    problems = "\n".join(with_third_parties["problems"])
    assert len(with_third_parties["problems"]) == 4
    assert "'bad' of broken_ep does not load: RuntimeError: licence server is down" in problems
    assert "'gone' of broken_ep does not load: AttributeError" in problems
    assert "'bad' of wrong_ep gives str, not EPDeviceSpec" in problems


def test_a_third_party_cannot_take_a_built_in_name(with_third_parties: dict[str, Any]) -> None:
    assert with_third_parties["qnn_vendor"] == "Qualcomm"
    assert "thief_ep redefines QNNExecutionProvider" in "\n".join(with_third_parties["problems"])


@pytest.mark.parametrize(
    ("option", "value", "fits"),
    [
        ("vtcm_mb", "8", True),
        ("vtcm_mb", "banana", False),
        ("vtcm_mb", "", False),
        ("vtcm_mb", "8MB", False),
        ("soc_model", "60", True),
        ("soc_model", "SM8550", True),
        ("soc_model", "banana", False),
    ],
)
def test_b16_a_value_of_another_form_is_refused(option: str, value: str, fits: bool) -> None:
    if fits:
        assert check_ep_options(find_spec("qnn"), {option: value}, "npu") == []
        return
    with pytest.raises(UsageError, match=option) as caught:
        check_ep_options(find_spec("qnn"), {option: value}, "npu")
    assert caught.value.code == "bad_ep_option"


@pytest.mark.parametrize("name", ["OpenVINOExecutionProvidr", "OpnVINOExecutionProvider", "openvno"])
def test_a12_a_slip_anywhere_in_a_full_name_keeps_it_on_the_name(name: str) -> None:
    with pytest.raises(UnknownEP, match="Did you mean 'openvino'"):
        find_spec(name)
