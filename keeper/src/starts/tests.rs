use super::*;

fn open(folder: &Path) -> (Arc<StartSlots>, Vec<FoundStart>) {
    let (slots, found) = StartSlots::open(folder).unwrap();
    (Arc::new(slots), found)
}

/// Writes what a child would.
fn note(slot: &StartSlot, pid: u32) {
    let note = [u64::from(pid), boot_ns().unwrap()].map(u64::to_ne_bytes);
    let (_, at) = slot.note();
    slot.slots
        .file
        .write_all_at(note.as_flattened(), at)
        .unwrap();
}

fn names(found: &[FoundStart]) -> Vec<&str> {
    found.iter().map(|start| start.name.as_str()).collect()
}

/// This process under a number that it has as long as the test runs.
fn own() -> ProcessIdentity {
    ProcessIdentity::of(std::process::id().try_into().unwrap()).unwrap()
}

#[test]
fn starts_are_found_by_the_next_program_until_they_are_freed_or_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let (slots, found) = open(folder.path());
    assert_eq!(found, []);
    let [_silent, noted, freed] =
        ["silent", "noted", "freed"].map(|name| slots.claim(name, "").unwrap());
    note(&noted, 7);
    note(&freed, 8);
    freed.free();
    drop((noted, _silent, slots));

    let (slots, found) = open(folder.path());
    assert_eq!(names(&found), ["noted", "silent"]);
    assert_eq!(found[0].pid, Some(7));
    assert_eq!(found[1].process(&[]), None);
    slots.forget("noted");
    slots.forget("nobody");
    // A later start of the same name is another, and comes last.
    note(&slots.claim("silent", "").unwrap(), 9);
    drop(slots);

    let (_, found) = open(folder.path());
    assert_eq!(names(&found), ["silent", "silent"]);
    assert_eq!(
        found.iter().map(|start| start.pid).collect::<Vec<_>>(),
        [None, Some(9)]
    );
}

#[test]
fn a_process_is_one_that_began_while_its_slot_was_taken() {
    let start = |ticks| FoundStart {
        name: "x".to_owned(),
        remark: String::new(),
        pid: Some(own().pid),
        ticks,
    };
    let began = own().start_time;
    let left = |start_time| LeftProcess {
        process: ProcessIdentity {
            start_time,
            ..own()
        },
        variable: None,
    };
    assert_eq!(start((began, began)).process(&[]), Some(own()));
    // It has ended, and whoever has its number now began later or earlier.
    let gone = ProcessIdentity {
        start_time: began - 5,
        ..own()
    };
    assert_eq!(start((began - 9, began - 5)).process(&[]), Some(gone));
    let of_keeper = left(began - 7);
    let records = [left(began - 20), of_keeper.clone(), left(began)];
    let found = start((began - 9, began - 5)).process(&records);
    assert_eq!(found, Some(of_keeper.process));
}

#[test]
fn a_remark_is_found_unless_it_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let (slots, _) = open(folder.path());
    let room = SLOT_BYTES - NAME_AT;
    let long = "x".repeat(room - 3);
    let longest = "x".repeat(room);
    for (name, remark) in [("a", "two words"), (&long, "12"), (&longest, "1")] {
        note(&slots.claim(name, remark).unwrap(), 7);
    }
    note(&slots.claim("b", &"1".repeat(room - 1)).unwrap(), 7);
    drop(slots);
    let (_, found) = open(folder.path());
    let remarks: Vec<&str> = found.iter().map(|start| start.remark.as_str()).collect();
    assert_eq!(remarks, ["two words", "", "12", ""]);
    assert_eq!(found[3].name, longest);
}

#[test]
fn slots_are_bounded_and_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let (slots, _) = open(folder.path());
    let mut taken: Vec<StartSlot> = (1..SLOTS).map(|_| slots.claim("x", "").unwrap()).collect();
    assert!(matches!(
        slots.claim("x", ""),
        Err(StartsError::Full { .. })
    ));
    taken.pop().unwrap().free();
    slots.claim("y", "").unwrap();
    let length = std::fs::metadata(folder.path().join(FILE)).unwrap().len();
    assert_eq!(length, FILE_BYTES as u64);
    for name in ["", "zero\0", &"x".repeat(SLOT_BYTES - NAME_AT + 1)] {
        assert!(matches!(
            slots.claim(name, ""),
            Err(StartsError::Name { .. })
        ));
    }
}

#[test]
fn slots_of_another_boot_or_of_garbage_are_free() {
    for content in [&b"starts 1 another-boot\n"[..], &[0xff; FILE_BYTES]] {
        let folder = tempfile::tempdir().unwrap();
        let mut bytes = [0xee; FILE_BYTES].to_vec();
        bytes[..content.len()].copy_from_slice(content);
        std::fs::write(folder.path().join(FILE), bytes).unwrap();
        let (slots, found) = open(folder.path());
        assert_eq!(found, []);
        slots.claim("x", "").unwrap();
        drop(slots);
        assert_eq!(names(&open(folder.path()).1), ["x"]);
    }
    // Records of this boot that are nobody's: names that are no text, pids that are none.
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    let path = folder.path().join(FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[SLOT_BYTES..].fill(0xff);
    bytes[2 * SLOT_BYTES + NAME_AT..3 * SLOT_BYTES].fill(b'x');
    std::fs::write(&path, bytes).unwrap();
    let (_, found) = open(folder.path());
    assert_eq!(names(&found), ["x".repeat(SLOT_BYTES - NAME_AT)]);
    assert_eq!(found[0].process(&[]), None);
}

#[test]
fn the_next_program_waits_until_a_child_has_noted_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (slots, _) = open(folder.path());
    let slot = slots.claim("late", "").unwrap();
    // Stands for the child, whose descriptors are copies of the program's.
    let of_child = slots.file.try_clone().unwrap();
    let (_, at) = slot.note();
    drop((slot, slots));
    std::thread::scope(|scope| {
        let next = scope.spawn(|| open(folder.path()).1);
        let note = [7, boot_ns().unwrap()].map(u64::to_ne_bytes);
        of_child.write_all_at(note.as_flattened(), at).unwrap();
        drop(of_child);
        assert_eq!(next.join().unwrap()[0].pid, Some(7));
    });
}
