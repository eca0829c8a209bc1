"""Draws a plan as text like Flink's EXPLAIN, with the id of each node after it.

Sink(table=[...], fields=[word, c])  #4
+- GroupAggregate(groupBy=[word], select=[word, COUNT(*) AS c])  #3
   +- Exchange(distribution=[hash[word]])  #2
      +- TableSourceScan(table=[[...]], fields=[word])  #1
"""

from __future__ import annotations

from tidegate.plan.exec_node_graph import ExecNodeGraph
from tidegate.plan.nodes import Node


def draw(plan: ExecNodeGraph) -> str:
    """Draws a plan: one tree for each sink, from it to the sources. A node with several readers is drawn once; further occurrences refer to its id."""
    drawing = _Drawing(plan)
    return "\n\n".join("\n".join(drawing.tree(sink)) for sink in plan.sinks) + "\n"


class _Drawing:
    def __init__(self, plan: ExecNodeGraph) -> None:
        self._plan = plan
        self._drawn: set[int] = set()

    def tree(self, node: Node) -> list[str]:
        if node.id in self._drawn:
            return [f"Reused  #{node.id}"]
        self._drawn.add(node.id)
        lines = [f"{node.description}  #{node.id}"]
        inputs = self._plan.inputs(node.id)
        for position, read in enumerate(inputs):
            is_last = position == len(inputs) - 1
            first, *rest = self.tree(read)
            lines.append(("+- " if is_last else ":- ") + first)
            lines += [("   " if is_last else ":  ") + line for line in rest]
        return lines
