"""What a native error text says, without where in whose source it was said.

ONNX Runtime wraps the cause in its own prefix, the failing node, a source position and a C++ signature, OpenVINO in a
list of rethrows. The whole text stays in the details of the failure; this is the sentence for its reason.
"""

from __future__ import annotations

import re

__all__ = ["plain_reason"]

_MOST = 400
_PREFIX = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")
_RETHROWN = re.compile(r"Exception from \S+:\d+:?\s*$")
_CHECK = re.compile(r"\s*Check '.*' failed at \S+:\d+:?")
_NODE = re.compile(r"Non-zero status code returned while running (\S+) node\. Name:'(.*?)' Status Message: ?")
# ``reshape_helper.h:84 onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, bool)``, or only the
# name of the function; then the condition of ORT_ENFORCE.
_POSITION = re.compile(r"\S*\w\.(?:cc|cpp|cu|h|hpp):\d+:? (?:- )?")
_SIGNATURE = re.compile(
    r"(?:[^()]*? )??~?[\w~<>]+(?:::[\w~<>,]+)+\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])? "
)
_CONDITION = re.compile(r".{1,300}? was false\. (?=\S)")
_FUNCTION = re.compile(r"[A-Za-z_]\w* (?=\S)")


def plain_reason(text: str) -> str:
    """The cause in a native error text, on one line; never empty.

    >>> plain_reason("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : no such input")
    'no such input'
    """
    told = _PREFIX.split(text)[-1]
    parts: list[str] = []
    for line in told.splitlines():
        said = _clean(line.strip())
        if said:
            parts.append(said)
            # A line that ends so announces the next one.
            if not said.endswith(":"):
                break
    found = " ".join(parts).rstrip(": ")
    if not found:
        found = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    return found if len(found) <= _MOST else f"{found[:_MOST]} ..."


def _clean(line: str) -> str:
    node = _NODE.search(line)
    if node is not None:
        operator, name = node[1], node[2]
        # A part that an EP compiled is run as one node with a number for a name.
        compiled = re.fullmatch(r"\w+ExecutionProvider_\d+_\d+", operator)
        where = "a part compiled by the EP" if compiled else f"{operator} node {name!r}" if name else f"{operator} node"
        return f"{where}: {_clean(line[node.end() :])}".rstrip()
    line = line.removeprefix("Exception during initialization: ")
    line = _CHECK.sub(":", _RETHROWN.sub("", line)).removeprefix(":")
    position = _POSITION.search(line)
    if position is None:
        return line.strip()
    before, rest = line[: position.start()], line[position.end() :]
    if not position[0].endswith("- "):
        signature = _SIGNATURE.match(rest)
        rest = _CONDITION.sub("", rest[signature.end() :], count=1) if signature else _FUNCTION.sub("", rest, count=1)
    return f"{before}{rest}".strip()
