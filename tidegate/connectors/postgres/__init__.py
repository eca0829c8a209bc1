"""PostgreSQL as an exactly-once sink, on ``psycopg`` (the extra ``tidegate[postgres]``).

write ─▶ COPY (or upsert) in an open transaction │ barrier n: PREPARE TRANSACTION │ confirm(n): COMMIT PREPARED
"""
