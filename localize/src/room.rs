//! Room on the disk of a local directory: what health, the choice of a disk and the limits of a
//! download mean by it.
//!
//! A download leaves some bytes of its disk free, for the containers that work there. So a disk
//! with no more than these has no room: its directory is full, gets no new files, and the health
//! report says so. Hadoop's own limits (a percentage and a number of mebibytes) come on top.

use dir_handle::DiskSpace;

/// Free bytes that downloads leave on a disk, unless it is small.
const RESERVE_MAX_BYTES: u64 = 64 << 20;

/// Part of a small disk that downloads leave free, as its inverse: a disk of 20 MiB has room, too.
const RESERVE_OF_SMALL: u64 = 16;

/// Returns the bytes that downloads leave free on a disk of this size.
pub(super) fn reserve_bytes(total_bytes: u64) -> u64 {
    RESERVE_MAX_BYTES.min(total_bytes / RESERVE_OF_SMALL)
}

/// Returns the bytes that downloads may still write.
pub(super) fn room_bytes(space: DiskSpace) -> u64 {
    let reserve = reserve_bytes(space.total_bytes);
    space.free_bytes.saturating_sub(reserve)
}

/// Returns why a disk has no room; `None`: it has. A disk that had none needs a second reserve, so
/// that it does not change with each file.
pub(super) fn lack_of_room(space: DiskSpace, had_room: bool) -> Option<String> {
    let reserve = reserve_bytes(space.total_bytes);
    let needed = if had_room { reserve } else { 2 * reserve };
    (reserve > 0 && space.free_bytes <= needed).then(|| {
        let mb = needed.div_ceil(1 << 20);
        format!("free space not above the {mb}MB that downloads leave to containers")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn space(total_mib: u64, free_bytes: u64) -> DiskSpace {
        DiskSpace {
            total_bytes: total_mib * MIB,
            free_bytes,
        }
    }

    #[test]
    fn a_disk_lacks_room_exactly_if_no_byte_may_be_written() {
        for (total_mib, reserve) in [(20, 5 * MIB / 4), (1024, 64 * MIB), (1 << 20, 64 * MIB)] {
            for (free, room) in [(0, 0), (reserve, 0), (reserve + 1, 1)] {
                let space = space(total_mib, free);
                assert_eq!(room_bytes(space), room, "{space:?}");
                assert_eq!(lack_of_room(space, true).is_some(), room == 0, "{space:?}");
            }
        }
        assert_eq!(lack_of_room(space(0, 0), true), None);
    }

    #[test]
    fn a_disk_without_room_has_it_again_once_a_second_reserve_is_free() {
        let reason = lack_of_room(space(1024, 128 * MIB), false);
        assert!(reason.is_some_and(|reason| reason.contains("128MB")));
        assert_eq!(lack_of_room(space(1024, 128 * MIB + 1), false), None);
    }
}
