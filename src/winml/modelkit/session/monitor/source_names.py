"""From the name an EP gives an operator back to the ONNX nodes it came from, as far as names allow."""

from __future__ import annotations

import re
from collections.abc import Iterable

# What ONNX Runtime and EPs hang onto a node's name when they rewrite it.
_TAILS = (
    re.compile(r"_token_\d+$"),
    re.compile(r":OpId_\d+$"),
    re.compile(r"_nchwc$"),
    re.compile(r"/duplicated(_\d+)?$"),
    re.compile(r"/WithoutBiases$"),
    re.compile(r"/(fq|reshape|MatMulAddFusion|ReshapeFusion|GatherSliceToSplit|SplitFusion)[^/]*$"),
    re.compile(r"_(QuantizeLinear|DequantizeLinear)$"),
    re.compile(r"_\d+$"),
)
_HEADS = (re.compile(r"^OV::"), re.compile(r"^.*__Inline_\d+__"))


class SourceNames:
    """Looks names up among a source graph's nodes.

    Args:
        nodes: (name, outputs) of every node, nested graphs included.
    """

    def __init__(self, nodes: Iterable[tuple[str, Iterable[str]]]) -> None:
        self._by_name: dict[str, str] = {}
        self._by_output: dict[str, str] = {}
        for name, outputs in nodes:
            outputs = [output for output in outputs if output]
            label = name or (outputs[0] if outputs else "")
            if name:
                self._by_name.setdefault(name, label)
            for output in outputs:
                self._by_output.setdefault(output, label)

    def find(self, name: str) -> tuple[str, ...]:
        """The node that bears the name, or makes a value of that name; tails and heads of rewrites are taken off
        one at a time until one fits. Empty where none does."""
        pending = [name]
        seen = set()
        while pending:
            candidate = pending.pop(0)
            if not candidate or candidate in seen:
                continue
            seen.add(candidate)
            found = self._by_name.get(candidate) or self._by_output.get(candidate)
            if found:
                return (found,)
            pending += [pattern.sub("", candidate) for pattern in (*_TAILS, *_HEADS) if pattern.search(candidate)]
        return ()
