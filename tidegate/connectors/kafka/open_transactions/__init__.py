"""The exactly-once sink that writes into open transactions: readers of uncommitted records see them at once.

    write ─▶ open transaction ─▶ barrier: everything is acknowledged (prepared) ─▶ confirm: EndTxn, in whatever process confirms

``naming`` and ``deadlines`` decide and do no I/O; ``broker`` is the port to Kafka, ``columnar_broker`` its implementation; ``session`` is
what writer and committer of a subtask share; ``resolving`` is for ``tidegate txn``. See docs/adr/0173.
"""
