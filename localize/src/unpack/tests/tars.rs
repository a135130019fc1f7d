//! Forms of tars: what GNU tar writes and reads beyond plain files.

use super::*;

/// Appends an entry in GNU's form, or with another magic, and what a test puts into its header.
fn special(tar: &mut Vec<u8>, kind: u8, name: &str, content: &[u8], fill: impl FnOnce(&mut [u8])) {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::new(kind));
    header.set_size(u64::try_from(content.len()).unwrap());
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    fill(header.as_mut_bytes());
    header.set_cksum();
    tar.extend_from_slice(header.as_bytes());
    tar.extend_from_slice(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn plain(_header: &mut [u8]) {}

/// Appends an extended header.
fn pax(tar: &mut Vec<u8>, kind: u8, records: &[(&str, &str)]) {
    let mut data = String::new();
    for (key, value) in records {
        let rest = format!(" {key}={value}\n");
        let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits);
        data += &format!("{}{rest}", rest.len() + digits.unwrap());
    }
    special(tar, kind, "pax", data.as_bytes(), plain);
}

fn unpacked(tar: Vec<u8>) -> Place {
    let place = Place::new();
    place.unpack(Packing::Tar, tar).unwrap();
    place
}

#[track_caller]
fn assert_malformed(tar: Vec<u8>, why: &str) {
    let error = Place::new().unpack(Packing::Tar, tar);
    let Err(UnpackError::Malformed { source, .. }) = error else {
        panic!("{error:?}");
    };
    assert!(source.to_string().contains(why), "{source}");
}

#[test]
fn long_names_come_from_a_prefix_from_gnus_entries_or_from_an_extended_header() {
    let mut tar = Vec::new();
    special(&mut tar, b'0', "prefixed", b"1", |header| {
        header[257..265].copy_from_slice(b"ustar\x0000");
        header[345..348].copy_from_slice(b"a/b");
    });
    // GNU's own form has times there.
    special(&mut tar, b'0', "not prefixed", b"2", |header| {
        header[345..356].copy_from_slice(b"00000000017");
    });
    special(&mut tar, b'L', "long", b"gnu/long\0", plain);
    special(&mut tar, b'0', "short", b"3", plain);
    pax(
        &mut tar,
        b'x',
        &[("path", "pax/long"), ("size", "1"), ("comment", "x")],
    );
    special(&mut tar, b'L', "long", b"loses\0", plain);
    special(&mut tar, b'0', "short", b"4", |header| {
        header[124..135].fill(b'0')
    });
    pax(&mut tar, b'x', &[("linkpath", "pax/long")]);
    special(&mut tar, b'2', "link", b"", plain);
    special(&mut tar, b'K', "long", b"gnu/long\0", plain);
    special(&mut tar, b'2', "gnu link", b"", plain);
    let place = unpacked(tar);
    for (name, content) in [
        ("a/b/prefixed", "1"),
        ("not prefixed", "2"),
        ("gnu/long", "3"),
        ("pax/long", "4"),
        ("link", "4"),
        ("gnu link", "3"),
    ] {
        assert_eq!(place.read(name), content, "{name}");
    }
    assert!(!place.path("short").exists() && !place.path("loses").exists());
}

#[test]
fn a_global_header_holds_until_the_next_one() {
    let mut tar = Vec::new();
    pax(
        &mut tar,
        b'g',
        &[("comment", "a commit"), ("mtime", "1000.5")],
    );
    special(&mut tar, b'0', "a", b"1", plain);
    pax(&mut tar, b'x', &[("mtime", "-2")]);
    special(&mut tar, b'0', "b", b"1", plain);
    pax(&mut tar, b'g', &[("comment", "another")]);
    special(&mut tar, b'0', "c", b"1", |header| {
        header[136..147].copy_from_slice(b"00000000007")
    });
    let place = unpacked(tar);
    let modified = |name| fs::metadata(place.path(name)).unwrap().mtime();
    assert_eq!((modified("a"), modified("b"), modified("c")), (1000, -2, 7));
}

#[test]
fn old_and_binary_forms_are_read() {
    let mut tar = Vec::new();
    // Unix v7: no magic, no kind, and a slash for a folder.
    let old = |header: &mut [u8]| header[257..265].fill(0);
    special(&mut tar, 0, "d/", b"", old);
    special(&mut tar, 0, "d/f", b"1", old);
    special(&mut tar, b'7', "contiguous", b"2", plain);
    special(&mut tar, b'0', "binary", b"3", |header| {
        header[124..136].fill(0);
        (header[124], header[135]) = (0x80, 1);
    });
    special(&mut tar, b'V', "label", b"", plain);
    special(&mut tar, b'D', "listed/", b"Yname\0\0", plain);
    special(&mut tar, b'0', "end", b"4", plain);
    let place = unpacked(tar);
    for (name, content) in [
        ("d/f", "1"),
        ("contiguous", "2"),
        ("binary", "3"),
        ("end", "4"),
    ] {
        assert_eq!(place.read(name), content, "{name}");
    }
    assert!(place.path("listed").is_dir() && !place.path("label").exists());
}

#[test]
fn what_is_not_supported_is_refused_by_the_entrys_name() {
    for (kind, reason) in [
        (b'M', Unsupported::Continued),
        (b'A', Unsupported::UnknownKind(b'A')),
        (b'6', Unsupported::SpecialFile),
    ] {
        let mut tar = Vec::new();
        special(&mut tar, kind, "entry", b"", plain);
        assert_refused(Place::new().unpack(Packing::Tar, tar), reason, "entry");
    }
    let mut tar = Vec::new();
    pax(
        &mut tar,
        b'x',
        &[("GNU.sparse.major", "2"), ("GNU.sparse.name", "real")],
    );
    special(&mut tar, b'0', "entry", b"", plain);
    let refused = Place::new().unpack(Packing::Tar, tar);
    assert_refused(refused, Unsupported::SparseForm, "real");
}

/// Two regions, 512 bytes at 1024 and 3 at 4096, of a file of 5000 bytes, and a file behind it.
fn assert_sparse(write: impl FnOnce(&mut Vec<u8>, &[u8])) {
    let stored = [&[b'a'; 512][..], b"end"].concat();
    let mut tar = Vec::new();
    write(&mut tar, &stored);
    special(&mut tar, b'0', "behind", b"1", plain);
    let place = unpacked(tar);
    let mut expected = vec![0; 5000];
    expected[1024..1536].fill(b'a');
    expected[4096..4099].copy_from_slice(b"end");
    assert_eq!(fs::read(place.path("sparse")).unwrap(), expected);
    assert_eq!(place.read("behind"), "1");
    assert!(!place.path("stored").exists());
}

#[test]
fn sparse_files_are_unpacked_in_each_of_gnus_forms() {
    assert_sparse(|tar, stored| {
        special(tar, b'S', "sparse", stored, |header| {
            header[386..398].copy_from_slice(b"00000002000\0");
            header[398..410].copy_from_slice(b"00000001000\0");
            header[410..422].copy_from_slice(b"00000010000\0");
            header[422..434].copy_from_slice(b"00000000003\0");
            header[483..495].copy_from_slice(b"00000011610\0");
        });
    });
    assert_sparse(|tar, stored| {
        pax(
            tar,
            b'x',
            &[
                ("GNU.sparse.size", "5000"),
                ("GNU.sparse.numblocks", "2"),
                ("GNU.sparse.offset", "1024"),
                ("GNU.sparse.numbytes", "512"),
                ("GNU.sparse.offset", "4096"),
                ("GNU.sparse.numbytes", "3"),
            ],
        );
        special(tar, b'0', "sparse", stored, plain);
    });
    assert_sparse(|tar, stored| {
        let map = ("GNU.sparse.map", "1024,512,4096,3,5000,0");
        let name = ("GNU.sparse.name", "sparse");
        pax(tar, b'x', &[("GNU.sparse.size", "5000"), name, map]);
        special(tar, b'0', "stored", stored, plain);
    });
    assert_sparse(|tar, stored| {
        let mut data = b"2\n1024\n512\n4096\n3\n".to_vec();
        data.resize(512, 0);
        data.extend_from_slice(stored);
        pax(
            tar,
            b'x',
            &[
                ("GNU.sparse.major", "1"),
                ("GNU.sparse.minor", "0"),
                ("GNU.sparse.name", "sparse"),
                ("path", "stored"),
                ("GNU.sparse.realsize", "5000"),
            ],
        );
        special(tar, b'0', "stored", &data, plain);
    });
}

#[test]
fn an_old_sparse_file_has_further_regions_in_blocks_behind_its_header() {
    let mut tar = Vec::new();
    special(&mut tar, b'S', "sparse", b"", |header| {
        header[124..135].copy_from_slice(b"00000000003");
        header[482] = 1;
        header[483..495].copy_from_slice(b"00000001004\0");
    });
    let mut more = [0; 512];
    more[..24].copy_from_slice(b"00000001001\x0000000000003\0");
    tar.extend_from_slice(&more);
    tar.extend_from_slice(b"end");
    tar.resize(tar.len().next_multiple_of(512), 0);
    special(&mut tar, b'0', "behind", b"1", plain);
    let place = unpacked(tar);
    let content = fs::read(place.path("sparse")).unwrap();
    assert_eq!(content.len(), 0o1004);
    assert!(content.ends_with(b"end") && place.path("behind").exists());
}

#[test]
fn a_map_that_does_not_fit_its_file_is_an_error() {
    for (map, why) in [
        ("0,1024,512,1024", "overlap"),
        ("1024,512,0,512", "overlap"),
        ("0,3,512,2045", "gaps"),
        ("0,2048,4096,2048", "beyond its length"),
        ("18446744073709551615,2", "beyond its length"),
        ("0,1024", "not as long as its regions"),
        ("0", "incomplete"),
        ("0,x", "not decimal"),
    ] {
        let mut tar = Vec::new();
        pax(
            &mut tar,
            b'x',
            &[("GNU.sparse.size", "5000"), ("GNU.sparse.map", map)],
        );
        special(&mut tar, b'0', "sparse", &[0; 2048], plain);
        assert_malformed(tar, why);
    }
    // The map takes more than the data has.
    let mut tar = Vec::new();
    let form = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0")];
    pax(
        &mut tar,
        b'x',
        &[form[0], form[1], ("GNU.sparse.realsize", "9")],
    );
    special(&mut tar, b'0', "sparse", b"0\n", plain);
    assert_malformed(tar, "map is too long");
}

#[test]
fn the_end_is_a_block_of_zeros_or_where_the_bytes_end() {
    let mut whole = Vec::new();
    special(&mut whole, b'0', "a", b"1", plain);
    let entry = whole.clone();
    for behind in [
        vec![],
        // A block that is not whole, as GNU tar does.
        vec![b'x'; 100],
        vec![0; 512],
        [vec![0; 1024], entry.clone()].concat(),
        [vec![0; 512], vec![b'x'; 5000]].concat(),
    ] {
        whole.truncate(entry.len());
        whole.extend_from_slice(&behind);
        assert_eq!(unpacked(whole.clone()).read("a"), "1");
    }
    unpacked(vec![0; 1024]);
    for behind in [vec![b'x'; 512], vec![b'x'; 5000]] {
        whole.truncate(entry.len());
        whole.extend_from_slice(&behind);
        assert_malformed(whole.clone(), "no header of a tar");
    }
    assert_malformed(gzip(&entry).repeat(10), "no header of a tar");
}

#[test]
fn a_wrong_checksum_behind_the_end_is_an_error() {
    let mut gzipped = gzip(&tar_of(&[(FILE, "a", "1")]));
    let checksum = gzipped.len() - 8;
    gzipped[checksum] ^= 1;
    let error = Place::new().unpack(Packing::GzippedTar, gzipped);
    assert!(
        matches!(error, Err(UnpackError::Malformed { .. })),
        "{error:?}"
    );
}
