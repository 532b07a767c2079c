"""A session on one EP device, with proof of where its nodes run."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winml.modelkit.errors import EvidenceShortfall, InputError, RunFailed, UsageError, WinMLError
from winml.modelkit.session import placement
from winml.modelkit.session.ep_device import known_spec
from winml.modelkit.session.native_text import plain_reason

if TYPE_CHECKING:
    from winml.modelkit.session.ep_registry import WinMLDevice

CPU_EP = placement.CPU_EP
# How OpenVINO tells the option or property whose value it does not take.
_OPTION_FAULT = re.compile(r"(\w+) parameter: |property key (\w+)|Unsupported property (\w+)|JSON parsing error")
STRICT_ENTRY = ("session.disable_cpu_ep_fallback", "1")


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How to make a session.

    Attributes:
        ep_name: canonical name of the EP that is to run the model.
        ep_options: provider options, every value a string.
        threads: intra-op threads of ONNX Runtime's CPU EP; None leaves ONNX Runtime's default.
        strict: fail where any node would stay on the CPU EP.
        dims: symbolic dimensions to fix in the session, by name.
        custom_ops: libraries with custom operators.
        fed_constants: initializers that are inputs too and that ``run`` will feed other values for.
        profile_prefix: write an ONNX Runtime profile with this file name prefix.
        name_nodes: give nodes without a name that of their first output, so that records about them can be told apart.
    """

    ep_name: str = CPU_EP
    ep_options: Mapping[str, str] = field(default_factory=dict)
    threads: int | None = None
    strict: bool = False
    dims: Mapping[str, int] = field(default_factory=dict)
    custom_ops: Sequence[str] = ()
    fed_constants: Sequence[str] = ()
    profile_prefix: str | None = None
    name_nodes: bool = False


class WinMLSession:
    """One ONNX Runtime session on one device.

    The session runs on that device only: Python's retry on CPU after a run error is off, and ``placement()`` tells
    which nodes ONNX Runtime left to the CPU EP.

    Args:
        model: path of the ONNX file.
        device: the EP device; None for the CPU EP.
        settings: how to make it.

    Attributes:
        notes: sentences about what had to be done otherwise than the file says.

    Raises:
        ModelError: the file is at fault, and it can be said how.
        EvidenceShortfall: ``strict``, and nodes would stay on the CPU EP; they are named.
        UsageError: the EP refuses the value of a provider option.
        RunFailed: ONNX Runtime or the EP refused for another reason.
    """

    def __init__(
        self, model: str | Path, device: WinMLDevice | None = None, settings: SessionSettings | None = None
    ) -> None:
        self.path = str(model)
        self.device = device
        self.settings = settings or SessionSettings()
        self.notes: list[str] = []
        self._model: str | bytes = self._named_model() if self.settings.name_nodes else self.path
        try:
            self._session = self._make(strict=self.settings.strict)
        except Exception as error:  # onnxruntime raises a dozen unrelated types
            if not self._made_with_constants():
                raise self._explain(error) from error
        self._session.disable_fallback()

    def _make(self, *, strict: bool) -> Any:
        import onnxruntime as ort

        return ort.InferenceSession(self._model, self._options(ort, strict=strict))

    def _made_with_constants(self) -> bool:
        """Try again with initializers that are inputs too as the constants they are where nobody feeds them.

        OpenVINO refuses such inputs; from IR version 4 on ONNX Runtime keeps them. False where there are none, or
        where the model is refused all the same.
        """
        if self.device is None or self.settings.ep_name == CPU_EP:
            return False
        from winml.modelkit.onnx.facts import overridable_inputs
        from winml.modelkit.onnx.files import read_model

        try:
            names = [item.name for item in overridable_inputs(read_model(self.path))]
        except WinMLError:
            return False
        names = [name for name in names if name not in self.settings.fed_constants]
        if not names:
            return False
        before, model = self._model, self._graph()
        for item in [item for item in model.graph.input if item.name in names]:
            model.graph.input.remove(item)
        self._model = model.SerializeToString()
        del model
        try:
            self._session = self._make(strict=self.settings.strict)
        except Exception as error:
            if self._left_behind(str(error)):
                raise self._explain(error) from error
            # Then the first failure is told, of the model as it is.
            self._model = before
            return False
        listed = ", ".join(map(repr, names[:8])) + (" ..." if len(names) > 8 else "")
        self.notes.append(
            f"{_alias(self.settings.ep_name)} takes no initializers that are inputs too; {listed} ran as constants"
        )
        return True

    @property
    def ort_session(self) -> Any:
        """The ``onnxruntime.InferenceSession``."""
        return self._session

    def _options(self, ort: Any, *, strict: bool) -> Any:
        settings = self.settings
        options = ort.SessionOptions()
        options.add_session_config_entry(*placement.RECORD_ASSIGNMENT)
        if strict and self.device is not None and settings.ep_name != CPU_EP:
            options.add_session_config_entry(*STRICT_ENTRY)
        if settings.threads is not None:
            options.intra_op_num_threads = settings.threads
        for name, size in settings.dims.items():
            options.add_free_dimension_override_by_name(name, size)
        for library in settings.custom_ops:
            try:
                options.register_custom_ops_library(library)
            except Exception as error:
                raise RunFailed(
                    f"the custom operator library {library} does not load: {plain_reason(str(error))}",
                    code="custom_ops_failed",
                    hint="--custom-ops takes a library that exports RegisterCustomOps and is built for this machine",
                ) from error
        if settings.profile_prefix is not None:
            options.enable_profiling = True
            options.profile_file_prefix = settings.profile_prefix
        if isinstance(self._model, bytes):
            self._add_folder(options)
        if self.device is not None:
            options.add_provider_for_devices([self.device.ort_device], dict(settings.ep_options))
        elif settings.ep_name != CPU_EP:
            # Bundled EPs that are not listed as devices (CUDA in onnxruntime-gpu) are added by name.
            options.add_provider(settings.ep_name, dict(settings.ep_options))
        return options

    def _add_folder(self, options: Any) -> None:
        """Say where the external data of a model lies that is given as bytes."""
        folder = str(Path(self.path).resolve().parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)

    def placement(self, *, name_all: bool = True) -> dict[str, Any]:
        """Which nodes run where; see ``placement.summarise``.

        Args:
            name_all: give leftover nodes without a name that of an output, which costs one more session.
        """
        groups = placement.read_assignment(self._session)
        summary = placement.summarise(groups, self.settings.ep_name, aliases=_alias)
        if name_all and any(not node["name"] for node in summary["leftovers"]):
            named = self._named_assignment()
            if named is not None:
                summary = placement.summarise(named, self.settings.ep_name, aliases=_alias)
        return summary

    def _graph(self) -> Any:
        """The ``onnx.ModelProto`` that the session is made of, without external data."""
        import onnx

        if isinstance(self._model, bytes):
            return onnx.load_from_string(self._model)
        return onnx.load(self._model, load_external_data=False)

    def _named_model(self) -> str | bytes:
        """The path, or the graph with names for its unnamed nodes; its external data stays where it is."""
        from winml.modelkit.onnx.facts import walk_nodes
        from winml.modelkit.onnx.files import read_model

        if all(node.name for node in walk_nodes(read_model(self.path))):
            return self.path
        import onnx

        model = onnx.load(self.path, load_external_data=False)
        _name_nodes(model.graph)
        named: bytes = model.SerializeToString()
        return named

    def _named_assignment(self) -> list[dict[str, Any]] | None:
        """The assignment of the same graph with every unnamed node named after its first output.

        ONNX Runtime's assignment carries node names only; this costs one more session, made only where a node that
        must be reported has none. None where that session can't be made.
        """
        import onnxruntime as ort

        model = self._graph()
        _name_nodes(model.graph)
        options = self._options(ort, strict=False)
        self._add_folder(options)
        try:
            session = ort.InferenceSession(model.SerializeToString(), options)
        except Exception:  # noqa: BLE001 - the names are a courtesy; the placement stands without them
            return None
        return placement.read_assignment(session)

    def _left_behind(self, text: str) -> bool:
        """Whether an error says that nodes would stay on the CPU EP, which strict mode forbids."""
        return self.settings.strict and "fallback" in text and "disabled" in text.casefold()

    def _explain(self, error: Exception) -> WinMLError:
        """The true cause of a session that was not made."""
        if isinstance(error, WinMLError):
            return error
        text = str(error)
        if self._left_behind(text):
            return self._strict_failure(text)
        import onnxruntime as ort

        from winml.modelkit.onnx.load_failure import explain_load_failure

        known = explain_load_failure(self.path, text, {"version": ort.__version__})
        if known is not None:
            known.details.setdefault("original", text)
            return known
        reason = plain_reason(text)
        if self.settings.ep_options and (word := _OPTION_FAULT.search(reason)):
            return UsageError(
                f"{_alias(self.settings.ep_name)} refuses an option: {reason}",
                code="bad_ep_option",
                hint="correct it in --ep-options, or leave it out",
                details={"original": text, "about": next(filter(None, word.groups()), "load_config")},
            )
        hint = "the EP or ONNX Runtime refused this model"
        if self.settings.ep_name != CPU_EP:
            hint += "; winml perf --ep cpu tells whether the CPU EP takes it"
        return RunFailed(
            f"{self.path}: {_alias(self.settings.ep_name)} made no session: {reason}",
            code="session_failed",
            hint=hint,
            details={"original": text},
        )

    def _strict_failure(self, text: str) -> WinMLError:
        """Strict mode fails without naming nodes, so ask the same question without it."""
        details: dict[str, Any] = {"original": text, "strict": True}
        names = ""
        try:
            self._session = self._make(strict=False)
            summary = self.placement()
        except Exception:  # noqa: BLE001 - then the failure is told without names
            summary = None
        if summary is not None:
            details["placement"] = summary
            left = summary["leftovers"]
            shown = ", ".join(f"{node['op_type']} ({node['name'] or 'unnamed'})" for node in left[:8])
            more = f" and {len(left) - 8} more" if len(left) > 8 else ""
            names = f": {len(left)} of {summary['nodes_total']} nodes stay on CPU: {shown}{more}"
        return EvidenceShortfall(
            f"{_alias(self.settings.ep_name)} does not take every node{names}",
            code="strict_placement",
            hint="without --strict the model runs with these nodes on the CPU",
            details=details,
        )

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
        """Run once.

        Raises:
            InputError: the data does not fit the model.
            RunFailed: ONNX Runtime or the EP failed while running.
        """
        try:
            if self.needs_ort_values:
                values = self._session.run_with_ort_values(outputs, ort_values(feeds))
                return [value if value.element_type() in NO_NUMPY_TYPE else value.numpy() for value in values]
            return list(self._session.run(outputs, dict(feeds)))
        except Exception as error:
            raise explain_run(error, _alias(self.settings.ep_name)) from error

    @property
    def needs_ort_values(self) -> bool:
        """Whether an output has a type numpy lacks (bfloat16, float8), so that ``run`` must leave it an OrtValue."""
        types = [item.type for item in self._session.get_outputs()]
        return any(word in text for text in types for word in ("bfloat16", "float8", "float4", "int4"))

    def end_profiling(self) -> Path | None:
        """Write the profile and give its path, or None if none was written."""
        path = Path(self._session.end_profiling())
        return path if path.is_file() else None


# TensorProto.DataType of types that ONNX Runtime cannot turn into numpy arrays: bfloat16, the float8s, int4s, float4.
NO_NUMPY_TYPE = frozenset({16, 17, 18, 19, 20, 21, 22, 23, 24})


def ort_values(feeds: Mapping[str, Any]) -> dict[str, Any]:
    """The same data as OrtValues, which can carry types that numpy lacks."""
    import numpy as np
    import onnxruntime as ort

    return {
        name: ort.OrtValue.ortvalue_from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in feeds.items()
    }


def explain_run(error: Exception, ep: str) -> WinMLError:
    """A failure while running, as ours."""
    if isinstance(error, WinMLError):
        return error
    text = str(error)
    line = plain_reason(text)
    if "INVALID_ARGUMENT" in text and ("indices element out of data bounds" in text):
        return InputError(
            f"the input data is out of the model's declared range: {line}",
            code="input_out_of_range",
            hint="an integer input indexes a table; give values below its size with --input-data",
            details={"original": text},
        )
    return RunFailed(
        f"the run on {ep} failed: {line}",
        code="run_failed",
        hint="the native log has the EP's own words"
        + ("" if ep == "cpu" else "; winml perf --ep cpu tells whether the CPU EP runs it"),
        details={"original": text},
    )


def _name_nodes(graph: Any) -> None:
    for index, node in enumerate(graph.node):
        if not node.name:
            node.name = next((name for name in node.output if name), f"{node.op_type}_{index}")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _name_nodes(attribute.g)
            for nested in attribute.graphs:
                _name_nodes(nested)


def _alias(name: str) -> str:
    spec = known_spec(name)
    return spec.alias if spec else name


def merge_load_config(existing: str | None, device_key: str, values: Mapping[str, str]) -> str:
    """OpenVINO's ``load_config`` with further properties for one device, as JSON text.

    Args:
        existing: what the user gave: JSON text, or the path of a JSON file, or None.
        device_key: OpenVINO device name (``CPU``, ``GPU``, ``NPU``).
        values: properties to add.

    Raises:
        UsageError: what the user gave is neither, has nothing for that device, or sets one of these properties to
            something else.
    """
    config: dict[str, Any] = {}
    if existing is not None:
        text = existing
        with contextlib.suppress(OSError):
            if Path(existing).is_file():
                text = Path(existing).read_text(encoding="utf-8")
        try:
            config = json.loads(text)
        except ValueError as error:
            raise _bad_load_config(str(error)) from error
        if not isinstance(config, dict) or not all(isinstance(part, dict) for part in config.values()):
            raise _bad_load_config("it is not an object of objects")
        if device_key not in config:
            raise UsageError(
                f"load_config has no properties for the device {device_key}, and no other runs the model; "
                f"it names {', '.join(config) or 'none'}",
                code="bad_load_config",
                hint=_LOAD_CONFIG_HINT,
            )
    section = dict(config.get(device_key, {}))
    for key, value in values.items():
        if key in section and str(section[key]) != value:
            raise UsageError(
                f"load_config sets {key} to {section[key]!r}, and another option asks for {value!r}",
                code="contradicting_options",
                hint="give it in one place",
            )
        section[key] = value
    config[device_key] = section
    return json.dumps(config)


_LOAD_CONFIG_HINT = 'for example load_config={"CPU": {"INFERENCE_NUM_THREADS": "2"}}'


def _bad_load_config(why: str) -> UsageError:
    return UsageError(
        f"load_config is neither JSON text nor the path of a JSON file with properties by device: {why}",
        code="bad_load_config",
        hint=_LOAD_CONFIG_HINT,
    )
