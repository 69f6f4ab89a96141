"""The native core: what the CPU can do."""



def cpu_name() -> str:
    """Brand string of the CPU."""

def cpu_features() -> list[str]:
    """
    Instruction sets the kernels care about that the CPU and the operating system both offer.
    """

def isas() -> list[str]:
    """ISAs whose kernels may run here, best first."""

def isa_in_use() -> str:
    """
    The ISA the kernels use: the best one, or the one FTBNN_ISA names. Raises ValueError if it cannot be used.
    """
