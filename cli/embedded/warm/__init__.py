"""The warm cluster: an embedded cluster that `tidegate cluster keep` leaves running, which programs borrow one after the other.

tidegate cluster keep ─▶ keeper: JobManager and TaskManagers as its children, a Unix socket in a directory of mode 0700
python job.py ─▶ facts of keeper and program are compared ─┬─ alike, and free: lent, with the read ends of the pipes that its processes print into
                                                           └─ else one line says why not, and a cluster of the program's own starts
the program ends ─┬─ its jobs are over: free for the next one
                  └─ a job is left: that cluster is closed, as an embedded one is, and another one starts
"""
