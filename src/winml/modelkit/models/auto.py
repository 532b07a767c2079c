"""``WinMLAutoModel``: an ONNX model on a target, in this process, with the same resolver as every command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winml.modelkit.errors import UsageError
from winml.modelkit.loader import resolve_model
from winml.modelkit.session.device_choice import PickedDevice, pick_device
from winml.modelkit.session.ep_device import EPDeviceTarget, check_ep_options, known_spec, resolve_target
from winml.modelkit.session.ep_inventory import Choice, choose
from winml.modelkit.session.ep_isolation import why_no_device
from winml.modelkit.session.ep_registry import WinMLEPRegistry
from winml.modelkit.session.session import SessionSettings, WinMLSession

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


@dataclass(frozen=True, slots=True)
class EffectiveTarget:
    """Where a model runs.

    Attributes:
        ep: canonical name of the EP.
        device: device class that was chosen, or that is emulated.
        emulated: it runs in an emulator.
        rule: why this target, in words.
    """

    ep: str
    device: str
    emulated: bool
    rule: str


class WinMLModel:
    """A model that is ready to run; make one with ``WinMLAutoModel``.

    Attributes:
        session: the session.
        requested: what was asked for.
        effective: where it runs.
    """

    def __init__(self, session: WinMLSession, requested: EPDeviceTarget, effective: EffectiveTarget) -> None:
        self.session = session
        self.requested = requested
        self.effective = effective

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs to feed."""
        return [item.name for item in self.session.ort_session.get_inputs()]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return [item.name for item in self.session.ort_session.get_outputs()]

    def placement(self) -> dict[str, Any]:
        """Which nodes run where; see ``session.placement.summarise``."""
        return self.session.placement()

    def __call__(self, inputs: Mapping[str, np.ndarray] | None = None, **named: np.ndarray) -> dict[str, Any]:
        """Run once.

        Args:
            inputs: arrays by input name.
            named: the same, as keywords.

        Returns:
            Arrays by output name.

        Raises:
            UsageError: an input is missing or unknown, or is given twice.
            RunFailed: ONNX Runtime or the EP failed.
        """
        twice = sorted(set(inputs or {}) & set(named))
        feeds = {**(inputs or {}), **named}
        missing = [name for name in self.input_names if name not in feeds]
        unknown = sorted(set(feeds) - set(self.input_names))
        if missing or unknown or twice:
            wrong = [("missing", missing), ("unknown", unknown), ("given twice", twice)]
            what = "; ".join(f"{word}: {', '.join(names)}" for word, names in wrong if names)
            raise UsageError(
                f"the inputs do not fit the model: {what}",
                code="inputs_do_not_fit",
                hint=f"its inputs: {', '.join(self.input_names)}",
            )
        return dict(zip(self.output_names, self.session.run(feeds), strict=True))


class WinMLAutoModel:
    """Makes models that run on a target of this machine. A target that was named is honoured or refused."""

    @classmethod
    def from_onnx(
        cls,
        path: str | Path,
        *,
        device: str | None = None,
        ep: str | None = None,
        ep_path: Sequence[str] = (),
        ep_options: Mapping[str, str] | None = None,
        emulate: bool = False,
        strict: bool = False,
        threads: int | None = None,
        dims: Mapping[str, int] | None = None,
    ) -> WinMLModel:
        """Load an ONNX file.

        Args:
            path: the file, or a folder with one.
            device: ``auto`` (also if None), ``npu``, ``gpu`` or ``cpu``.
            ep: EP name in any form, ``name@source``, or None for any.
            ep_path: folders and libraries to look for EPs in, before all others.
            ep_options: provider options.
            emulate: accept an emulator of the device.
            strict: fail where a node would be left to the CPU EP.
            threads: intra-op threads of ONNX Runtime.
            dims: symbolic dimensions to fix, by name.

        Raises:
            DeviceNotFound, WinMLEPRegistrationFailed, TargetUnavailable: the target named is not here.
            ModelError: the file is at fault.
            UsageError: the request cannot be meant.
        """
        source = resolve_model(str(path))
        target = resolve_target(ep, device, emulate=emulate)
        choice = choose(target, ep_path)
        picked = _pick(target, choice)
        spec = known_spec(choice.entry.ep_name)
        options = dict(ep_options or {})
        if spec is not None:
            check_ep_options(spec, options, target.device or choice.device)
            options = {**spec.default_options.get(picked.serves, {}), **options}
        settings = SessionSettings(
            ep_name=choice.entry.ep_name,
            ep_options=options,
            threads=threads,
            strict=strict,
            dims=dict(dims or {}),
        )
        session = WinMLSession(source.path, picked.device, settings)
        effective = EffectiveTarget(choice.entry.ep_name, picked.serves, picked.emulated, choice.rule)
        return WinMLModel(session, target, effective)

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, **options: Any) -> WinMLModel:
        """Load a bundled sample, a folder or a file that holds an ONNX model; the options are those of ``from_onnx``.

        Raises:
            ModelError: it is neither; a Hugging Face id is said to be one.
        """
        return cls.from_onnx(name_or_path, **options)


def _pick(target: EPDeviceTarget, choice: Choice) -> PickedDevice:
    ep = WinMLEPRegistry.get_instance().register_ep(choice.entry)
    reason = "" if ep.devices else why_no_device(choice.entry)
    return pick_device(ep, target.device or choice.device, emulate=target.emulate, no_device_reason=reason)
