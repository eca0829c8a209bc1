from __future__ import annotations

import pickle

from tidegate.model.program import VertexProgram


def test_a_program_that_was_pickled_before_there_were_user_events_has_none() -> None:
    program = VertexProgram((), buffer_timeout_ms=7, events=(("shop.changed", int),))
    assert pickle.loads(pickle.dumps(program)) == program
    older = VertexProgram.__new__(VertexProgram)
    older.__setstate__([(), (), (), (), 7])
    assert older == VertexProgram((), buffer_timeout_ms=7)
