"""Sources and sinks, one file or folder per system.

Each holds its builder, its reader or writer, and its serialisable state. A connector knows its external system, and neither
the threads of the runtime nor the control plane.
"""
