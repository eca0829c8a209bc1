"""The exactly-once sink that writes into open transactions: readers of uncommitted records see them at once.

    write ─▶ open transaction ─▶ barrier: everything acknowledged, with a marker (prepared) ─▶ confirm: EndTxn

``naming`` decides and does no I/O; ``broker`` is the port to Kafka, ``columnar_broker`` its implementation; ``session`` is what writer and
committer of a subtask share. See docs/adr/0173.
"""
