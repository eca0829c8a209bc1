"""Finds the operators of a plan whose state grows for as long as the job runs.

plan, options ─▶ nodes that store rows or keys ─▶ without those whose input ends, or whose idle keys are removed ─▶ one warning
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tidegate.model.units import parse_duration_ms
from tidegate.plan import nodes as plan_nodes
from tidegate.plan.exec_node_graph import ExecNodeGraph
from tidegate.plan.nodes import STATE_TTL_KEY, Node
from tidegate.plan.specs import StateMetadata

_BY_KEY: tuple[type[Node], ...] = (
    plan_nodes.Join1, plan_nodes.MultiJoin1, plan_nodes.TemporalJoin1, plan_nodes.ChangelogNormalize1, plan_nodes.Deduplicate1,
)  # fmt: skip
"""Nodes that store something for each key or each row."""
_GROUPED = (
    plan_nodes.GroupAggregate1,
    plan_nodes.GlobalGroupAggregate1,
    plan_nodes.PythonGroupAggregate1,
)
_HINTED = (plan_nodes.Join1, plan_nodes.MultiJoin1, *_GROUPED)
"""Nodes to which the hint ``STATE_TTL`` applies."""
_MOST_NAMED = 5
"""The number of nodes that a warning names; it only counts the others. Chosen, not measured."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnboundedStates:
    """The nodes of a plan whose state has no bound. ``kept``: those whose keys are never removed. ``matched``: those whose partial matches never time out."""

    kept: tuple[Node, ...] = ()
    matched: tuple[Node, ...] = ()

    def warning(self) -> str | None:
        """Returns what to tell the user, in one text; ``None`` if every state has a bound."""
        parts: list[str] = []
        if self.kept:
            hint = (
                " or give joins and aggregates the hint STATE_TTL,"
                if any(isinstance(n, _HINTED) for n in self.kept)
                else ""
            )
            parts.append(
                f"state grows without a bound, since no key is ever forgotten: {_listed(self.kept)}. "
                f"Set '{STATE_TTL_KEY}' (for example '1 d'),{hint} if a key without rows for so long may be forgotten"
            )
        if self.matched:
            parts.append(
                f"partial matches are kept without a bound: {_listed(self.matched)}. "
                "Give the pattern a WITHIN INTERVAL, so that they are given up after it"
            )
        return "; ".join(parts) or None


def warn_of_unbounded_states(
    plan: ExecNodeGraph, options: Mapping[str, str], is_bounded: Callable[[Node], bool] | None
) -> None:
    """Logs one warning for a plan if the state of some of its nodes has no bound. Its parameters are those of ``unbounded_states``."""
    text = unbounded_states(plan, options, is_bounded).warning()
    if text is not None:
        _LOG.warning("%s", text)


def unbounded_states(
    plan: ExecNodeGraph, options: Mapping[str, str], is_bounded: Callable[[Node], bool] | None
) -> UnboundedStates:
    """Finds the nodes of a plan whose state has no bound. ``options``: the environment's. ``is_bounded``: whether a scan ends; without it all do."""
    endless = _endless(plan, is_bounded)
    kept = [node for node in endless if _keeps_keys(node) and not _forgets(node, options)]
    matched = [node for node in endless if isinstance(node, plan_nodes.Match1) and node.match_spec.interval is None]
    return UnboundedStates(tuple(kept), tuple(matched))


def _endless(plan: ExecNodeGraph, is_bounded: Callable[[Node], bool] | None) -> list[Node]:
    """Returns the nodes with an input that does not end."""
    if is_bounded is None:
        return []
    ends: dict[int, bool] = {}

    def does_end(node: Node) -> bool:
        if node.id not in ends:
            inputs = plan.inputs(node.id)
            is_scan = isinstance(node, plan_nodes.TableSourceScan2)
            ends[node.id] = is_bounded(node) if is_scan else all(map(does_end, inputs))
        return ends[node.id]

    return [node for node in plan.nodes if not does_end(node)]


def _keeps_keys(node: Node) -> bool:
    if isinstance(node, _GROUPED):
        return bool(node.grouping)  # a single row otherwise
    if isinstance(node, plan_nodes.Rank1):
        return bool(node.partition.fields)
    return isinstance(node, _BY_KEY)


def _forgets(node: Node, options: Mapping[str, str]) -> bool:
    """Tells whether every state of a node has a time to live, so that idle keys are removed."""
    states: Iterable[StateMetadata] = getattr(node, "state", ())
    found = [state.ttl_ms for state in states]
    if not found:
        given = (node.configuration or {}).get(STATE_TTL_KEY, options.get(STATE_TTL_KEY, "0 ms"))
        found = [parse_duration_ms(given)]
    return all(found)


def _listed(nodes: tuple[Node, ...]) -> str:
    names = [f"node {node.id}, {node.description}" for node in nodes[:_MOST_NAMED]]
    return "; ".join(names) + (f"; and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else "")


__all__ = ["UnboundedStates", "unbounded_states", "warn_of_unbounded_states"]
