"""What touches records: holders, the door, measurements. Nothing here imports a method, a transport or a setting.

The trusted base is listed file by file in docs/proofs.md, "The boundary".
"""

from admmnet.holder.answers import NO, REFUSED, Answer, Ask, Released
from admmnet.holder.door import Door
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.types import LabelKind

__all__ = ["NO", "REFUSED", "Answer", "Ask", "Door", "Holder", "LabelKind", "Released", "SimulatedHolder"]
