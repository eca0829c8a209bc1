"""The exactly-once Kafka sink that writes into open transactions while records arrive, so that readers with ``read_uncommitted`` see them without delay.

    write ─▶ open transaction ─▶ barrier: everything is acknowledged (prepared) ─▶ checkpoint confirmed: EndTxn, from any process

``naming`` and ``deadlines`` decide and do no I/O; ``broker`` is the port to Kafka, ``columnar_broker`` its implementation; ``subtask_transactions``
holds what writer and committer of a subtask share; ``resolving`` commits or aborts prepared transactions for ``tidegate txn``. See docs/adr/0173.
"""
