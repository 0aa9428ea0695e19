"""Process groups of torch.distributed as a transport: bytes are gathered and exchanged, never added."""

import contextlib
import ctypes
from typing import Any, Dict, Sequence, Tuple

import torch
import torch.distributed as dist

from .._core import CallbackTransport


class _DeviceBytes:
    """Device memory for torch.as_tensor."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3, "strides": None}


def _bytes_at(address: int, size: int, device: torch.device) -> torch.Tensor:
    """uint8 over memory of somebody else's."""
    if size == 0:
        return torch.empty(0, dtype=torch.uint8, device=device)
    if device.type == "cpu":
        return torch.frombuffer((ctypes.c_ubyte * size).from_address(address), dtype=torch.uint8)
    return torch.as_tensor(_DeviceBytes(address, size), device=device)


class GroupTransport:
    """The two collectives of `CallbackTransport` over the ranks of a layout.

    ranks: the global rank of each rank of the layout. groups: the process groups that there are, by the global ranks that they hold.
    """

    def __init__(self, ranks: Sequence[int], groups: Sequence[Any], device: torch.device) -> None:
        self._ranks = tuple(ranks)
        self._groups: Dict[Tuple[int, ...], Any] = {tuple(sorted(dist.get_process_group_ranks(group))): group for group in groups}
        self._device = device

    def transport(self, rank: int, concurrent: bool) -> CallbackTransport:
        return CallbackTransport(
            rank, len(self._ranks), self.all_gather, self.all_to_all, spaces=(self._device.type,), concurrent=concurrent
        )

    def all_gather(self, group: Tuple[int, ...], send: int, receive: int, sizes: Tuple[int, ...], space: str, stream: int) -> None:
        if sum(sizes) == 0:  # on every rank alike
            return
        members = self._members(group)
        process_group = self._group(members)
        with self._on(stream):
            mine = _bytes_at(send, sizes[members.index(dist.get_rank())], self._device)
            parts = self._parts(receive, sizes)
            if len(set(sizes)) == 1 and members == tuple(dist.get_process_group_ranks(process_group)):
                dist.all_gather_into_tensor(_bytes_at(receive, sum(sizes), self._device), mine, group=process_group)
                return
            me = dist.get_rank()
            for member, part in zip(members, parts):  # of any sizes, in any order of the ranks
                if part.numel() == 0:
                    continue
                if member == me and part.data_ptr() != mine.data_ptr():
                    part.copy_(mine)
                dist.broadcast(part, src=member, group=process_group)

    def all_to_all(
        self, group: Tuple[int, ...], send: int, send_sizes: Tuple[int, ...], receive: int, receive_sizes: Tuple[int, ...],
        space: str, stream: int,
    ) -> None:  # fmt: skip
        members = self._members(group)
        process_group = self._group(members)
        with self._on(stream):
            order = dist.get_process_group_ranks(process_group)
            if members == tuple(order):
                dist.all_to_all_single(
                    _bytes_at(receive, sum(receive_sizes), self._device), _bytes_at(send, sum(send_sizes), self._device),
                    list(receive_sizes), list(send_sizes), group=process_group,
                )  # fmt: skip
                return
            # The group counts its ranks in another order than the layout.
            outgoing = dict(zip(members, self._parts(send, send_sizes)))
            incoming = dict(zip(members, self._parts(receive, receive_sizes)))
            arrived = torch.empty(sum(receive_sizes), dtype=torch.uint8, device=self._device)
            expected = [incoming[rank].numel() for rank in order]
            dist.all_to_all_single(
                arrived, torch.cat([outgoing[rank] for rank in order]), expected, [outgoing[rank].numel() for rank in order],
                group=process_group,
            )  # fmt: skip
            for rank, part in zip(order, arrived.split(expected)):
                incoming[rank].copy_(part)

    def _members(self, group: Tuple[int, ...]) -> Tuple[int, ...]:
        return tuple(self._ranks[rank] for rank in group)

    def _group(self, members: Tuple[int, ...]) -> Any:
        group = self._groups.get(tuple(sorted(members)))
        if group is None:
            raise ValueError(f"no process group holds the ranks {list(members)}")
        return group

    def _parts(self, address: int, sizes: Sequence[int]) -> Sequence[torch.Tensor]:
        parts = []
        for size in sizes:
            parts.append(_bytes_at(address, size, self._device))
            address += size
        return parts

    def _on(self, stream: int) -> Any:
        """Collectives order themselves behind the current stream."""
        if self._device.type == "cpu":
            return contextlib.nullcontext()
        handle = torch.cuda.ExternalStream(stream, device=self._device) if stream else torch.cuda.default_stream(self._device)
        return torch.cuda.stream(handle)
