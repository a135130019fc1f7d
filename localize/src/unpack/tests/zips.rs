//! Zip archives, and jars that a pattern unpacks in part.

use super::*;

#[test]
fn a_zip_is_unpacked_without_empty_folders_and_its_links_are_plain_files() {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default();
    writer.add_directory("empty/", options).unwrap();
    writer.start_file("d/f", options).unwrap();
    writer.write_all(b"content").unwrap();
    writer.add_symlink("l", "/etc/passwd", options).unwrap();
    let zip = writer.finish().unwrap().into_inner();
    let place = Place::new();
    place.unpack(Packing::Zip, zip).unwrap();
    assert_eq!(place.read("d/f"), "content");
    assert_eq!(place.read("l"), "/etc/passwd");
    assert!(!place.path("empty").exists());
}

/// Entry of a zip, as a program of the test's choice writes it.
#[derive(Default)]
struct Entry<'a> {
    name: &'a [u8],
    content: &'a [u8],
    /// Content as it is stored; by default as it is.
    packed: Option<Vec<u8>>,
    method: u16,
    flags: u16,
    /// System in the version that is needed.
    system: u8,
    extra: &'a [u8],
    /// Checksum and lengths behind the entry.
    descriptor: &'a [u8],
}

const DESCRIPTOR: u16 = 1 << 3;
const UTF8: u16 = 1 << 11;

fn crc(content: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(content);
    crc.sum()
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn end(zip: &mut Vec<u8>) {
    zip.extend_from_slice(b"PK\x05\x06");
    zip.resize(zip.len() + 18, 0);
}

/// Returns a zip of these entries with an empty directory, which nobody reads.
fn zip_by_hand(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut zip = Vec::new();
    for entry in entries {
        let packed = entry.packed.as_deref().unwrap_or(entry.content);
        let is_known = entry.flags & DESCRIPTOR == 0;
        let known = |number: usize| u32::try_from(number).unwrap() * u32::from(is_known);
        let crc = crc(entry.content) * u32::from(is_known);
        zip.extend_from_slice(b"PK\x03\x04\x14");
        zip.push(entry.system);
        for short in [entry.flags, entry.method, 0, 0] {
            zip.extend_from_slice(&short.to_le_bytes());
        }
        for long in [crc, known(packed.len()), known(entry.content.len())] {
            zip.extend_from_slice(&long.to_le_bytes());
        }
        for text in [entry.name, entry.extra] {
            zip.extend_from_slice(&u16::try_from(text.len()).unwrap().to_le_bytes());
        }
        for part in [entry.name, entry.extra, packed, entry.descriptor] {
            zip.extend_from_slice(part);
        }
    }
    end(&mut zip);
    zip
}

fn named<'a>(name: &'a [u8], content: &'a [u8]) -> Entry<'a> {
    Entry {
        name,
        content,
        ..Entry::default()
    }
}

fn unpacked(packing: Packing<'_>, entries: &[Entry<'_>]) -> Place {
    let place = Place::new();
    place.unpack(packing, zip_by_hand(entries)).unwrap();
    place
}

#[test]
fn names_are_read_as_java_reads_them() {
    let unicode = |crc: u32| {
        [
            &[0x75, 0x70, 13, 0, 1],
            &crc.to_le_bytes()[..],
            "q/é.txt".as_bytes(),
        ]
        .concat()
    };
    let (right, wrong) = (unicode(crc(b"\x82.txt")), unicode(0));
    let extra = |extra, content| Entry {
        extra,
        ..named(b"\x82.txt", content)
    };
    let windows = |name| Entry {
        system: 0,
        ..named(name, b"1")
    };
    let place = unpacked(
        Packing::Zip,
        &[
            named("é".as_bytes(), b"1"),
            Entry {
                flags: UTF8,
                ..named("ö".as_bytes(), b"2")
            },
            named(b"a\x82\xe2\x82b", b"3"),
            extra(&right, b"4"),
            extra(&wrong, b"5"),
            windows(b"back\\slash\\file"),
            windows(b"folder\\"),
            windows(b"mixed/back\\slash"),
            Entry {
                system: 3,
                ..named(b"unix\\file", b"6")
            },
            named(b"/absolute/./a//b", b"7"),
        ],
    );
    for (name, content) in [
        ("é", "1"),
        ("ö", "2"),
        ("a??b", "3"),
        ("q/é.txt", "4"),
        ("?.txt", "5"),
        ("back/slash/file", "1"),
        ("mixed/back\\slash", "1"),
        ("unix\\file", "6"),
        ("absolute/a/b", "7"),
    ] {
        assert_eq!(place.read(name), content, "{name}");
    }
    assert!(!place.path("folder").exists() && !place.path("folder\\").exists());

    let place = unpacked(Packing::Jar, &[named(b"back\\slash", b"1")]);
    assert_eq!(place.read("back\\slash"), "1");
    let jar = zip_by_hand(&[named(b"a\x82", b"1")]);
    assert_refused(
        Place::new().unpack(Packing::Jar, jar),
        Unsupported::NotUtf8,
        "a\u{fffd}",
    );
}

#[test]
fn the_manifest_of_a_jar_is_left_out_where_java_reads_it_itself() {
    let manifest = || named(b"META-INF/MANIFEST.MF", b"1");
    let at = "META-INF/MANIFEST.MF";
    let class = || named(b"A.class", b"1");
    let folder = || named(b"META-INF/", b"");
    for (entries, is_there) in [
        (vec![manifest(), class()], false),
        (vec![folder(), manifest(), class()], false),
        (
            vec![named(b"META-INF/INDEX.LIST", b"1"), manifest(), class()],
            false,
        ),
        (vec![class(), manifest()], true),
        (vec![manifest(), manifest(), class()], true),
        (vec![folder(), class(), manifest()], true),
    ] {
        let place = unpacked(Packing::Jar, &entries);
        assert_eq!(
            (place.path(at).exists(), place.read("A.class")),
            (is_there, "1".into())
        );
        let place = unpacked(Packing::Zip, &entries);
        assert_eq!(place.read(at), "1");
    }
}

#[test]
fn methods_that_java_reads_are_read_and_others_refused_by_name() {
    let content = b"content ".repeat(100);
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    bzip2.write_all(&content).unwrap();
    let place = unpacked(
        Packing::Zip,
        &[
            Entry {
                method: 12,
                packed: Some(bzip2.finish().unwrap()),
                ..named(b"bzip2", &content)
            },
            Entry {
                method: 8,
                packed: Some(deflate(&content)),
                ..named(b"deflate", &content)
            },
            // A block that is stored is the same in both kinds of deflate.
            Entry {
                method: 9,
                packed: Some(b"\x01\x03\0\xfc\xffabc".to_vec()),
                ..named(b"64", b"abc")
            },
        ],
    );
    for name in ["bzip2", "deflate"] {
        assert_eq!(place.read(name).as_bytes(), content, "{name}");
    }
    assert_eq!(place.read("64"), "abc");
    for (method, name) in [
        (14, "14 (LZMA)"),
        (93, "93 (Zstandard)"),
        (99, "99 (AES encryption)"),
        (55, "55"),
    ] {
        let zip = zip_by_hand(&[Entry {
            method,
            ..named(b"a", b"123")
        }]);
        let error = Place::new().unpack(Packing::Zip, zip).unwrap_err();
        let expected = format!("archive x.tar, entry \"a\": it uses the compression method {name}");
        assert_eq!(error.to_string(), expected);
    }
    let zip = zip_by_hand(&[Entry {
        flags: 1,
        ..named(b"a", b"123")
    }]);
    assert_refused(
        Place::new().unpack(Packing::Zip, zip),
        Unsupported::Encrypted,
        "a",
    );
    // Nobody asks for this entry, so nobody has to read it.
    let jar = zip_by_hand(&[
        Entry {
            method: 99,
            ..named(b"a", b"123")
        },
        named(b"b", b"1"),
    ]);
    let place = Place::new();
    place.unpack(Packing::JarByPattern(Some("b")), jar).unwrap();
    assert_eq!(place.read("b"), "1");
}

#[test]
fn lengths_may_stand_behind_an_entry_in_any_form() {
    let content = b"content";
    let packed = deflate(content);
    let descriptor = |content: &[u8], packed: &[u8], signature: &[u8], is_wide: bool| {
        let mut descriptor = signature.to_vec();
        descriptor.extend_from_slice(&crc(content).to_le_bytes());
        for length in [packed.len(), content.len()] {
            let length = u64::try_from(length).unwrap().to_le_bytes();
            descriptor.extend_from_slice(&length[..if is_wide { 8 } else { 4 }]);
        }
        descriptor
    };
    let entry = || Entry {
        method: 8,
        flags: DESCRIPTOR,
        packed: Some(packed.clone()),
        ..named(b"a", content)
    };
    for signature in [&b""[..], b"PK\x07\x08"] {
        for is_wide in [false, true] {
            let known = descriptor(content, &packed, signature, is_wide);
            let place = unpacked(
                Packing::Zip,
                &[
                    Entry {
                        descriptor: &known,
                        ..entry()
                    },
                    named(b"b", b"1"),
                ],
            );
            assert_eq!(
                (place.read("a"), place.read("b")),
                ("content".into(), "1".into())
            );
            // Nobody can tell the lengths of an empty file by the second one alone.
            let nothing = deflate(b"");
            let known = descriptor(b"", &nothing, signature, is_wide);
            let empty = Entry {
                content: b"",
                packed: Some(nothing),
                descriptor: &known,
                ..entry()
            };
            let place = unpacked(Packing::Zip, &[empty, named(b"b", b"1")]);
            assert_eq!(
                (place.read("a"), place.read("b")),
                (String::new(), "1".into())
            );
            let other = descriptor(b"another", &packed, signature, is_wide);
            let error = Place::new().unpack(
                Packing::Zip,
                zip_by_hand(&[Entry {
                    descriptor: &other,
                    ..entry()
                }]),
            );
            assert!(
                matches!(error, Err(UnpackError::Malformed { .. })),
                "{error:?}"
            );
        }
    }
    let stored = Entry {
        method: 0,
        packed: None,
        ..entry()
    };
    let refused = Place::new().unpack(Packing::Zip, zip_by_hand(&[stored]));
    assert_refused(refused, Unsupported::LengthBehind, "a");
}

#[test]
fn lengths_of_zip64_stand_in_an_extra_field() {
    let extra = [
        &[1, 0, 16, 0][..],
        &7_u64.to_le_bytes(),
        &7_u64.to_le_bytes(),
    ]
    .concat();
    let mut zip = zip_by_hand(&[
        Entry {
            extra: &extra,
            ..named(b"a", b"content")
        },
        named(b"b", b"1"),
    ]);
    zip[18..26].fill(0xff);
    let place = Place::new();
    place.unpack(Packing::Zip, zip).unwrap();
    assert_eq!(
        (place.read("a"), place.read("b")),
        ("content".into(), "1".into())
    );
}

#[test]
fn a_time_of_modification_is_kept() {
    let extra = [&[0x55, 0x54, 5, 0, 1][..], &1_700_000_000_i32.to_le_bytes()].concat();
    let place = unpacked(
        Packing::Zip,
        &[Entry {
            extra: &extra,
            ..named(b"a", b"1")
        }],
    );
    assert_eq!(
        fs::metadata(place.path("a")).unwrap().mtime(),
        1_700_000_000
    );
}

#[test]
fn the_last_of_duplicate_names_stays_and_a_name_below_a_file_is_refused() {
    let place = unpacked(Packing::Zip, &[named(b"a", b"123"), named(b"./a", b"4")]);
    assert_eq!(place.read("a"), "4");
    let zip = zip_by_hand(&[named(b"a", b"1"), named(b"a/b", b"2")]);
    assert_refused(
        Place::new().unpack(Packing::Zip, zip),
        Refused::ThroughFile,
        "a/b",
    );
}

#[test]
fn a_program_may_stand_before_the_entries_but_no_other_part() {
    let zip = zip_by_hand(&[named(b"a", b"1")]);
    for before in [&b"#!/bin/sh\nexit\n"[..], b"PK00", b"PPK"] {
        let place = Place::new();
        place.unpack(Packing::Zip, [before, &zip].concat()).unwrap();
        assert_eq!(place.read("a"), "1");
    }
    for broken in [
        [b"PK\x07\x08", zip.as_slice()].concat(),
        b"no zip".to_vec(),
        // Without its directory; with something else in its place.
        zip[..zip.len() - 22].to_vec(),
        [&zip[..zip.len() - 22], &[b'x'; 50]].concat(),
    ] {
        let error = Place::new().unpack(Packing::Zip, broken);
        assert!(
            matches!(error, Err(UnpackError::Malformed { .. })),
            "{error:?}"
        );
    }
    let mut empty = Vec::new();
    end(&mut empty);
    Place::new().unpack(Packing::Zip, empty).unwrap();
}

#[test]
fn a_broken_zip_is_an_error() {
    let zip = zip_of(&[("a", &"x".repeat(5000))]);
    for length in [0, 4, zip.len() / 2, zip.len() - 1] {
        let broken = Place::new().unpack(Packing::Zip, zip[..length].to_vec());
        assert!(
            matches!(broken, Err(UnpackError::Malformed { .. })),
            "{broken:?}"
        );
    }
    let mut flipped = zip;
    flipped[45] ^= 0xff;
    let broken = Place::new().unpack(Packing::Zip, flipped);
    assert!(
        matches!(broken, Err(UnpackError::Malformed { .. })),
        "{broken:?}"
    );
}

#[test]
fn a_jar_by_pattern_is_kept_beside_the_entries_that_match_as_a_whole() {
    let jar = zip_of(&[
        ("classes/A.class", "a"),
        ("lib/b.jar", "b"),
        ("lib/b.jar.txt", "c"),
    ]);
    let place = Place::new();
    let packing = Packing::JarByPattern(Some(r"lib/.*\.jar"));
    place.unpack(packing, jar.clone()).unwrap();
    assert_eq!(place.read("lib/b.jar"), "b");
    assert!(!place.path("classes").exists() && !place.path("lib/b.jar.txt").exists());
    assert_eq!(fs::read(place.path("x.tar")).unwrap(), jar);
}

#[test]
fn a_pattern_that_is_none_or_too_large_is_an_error() {
    for pattern in ["(", "(?=lookahead)", "(((a{100}){100}){100})"] {
        let jar = zip_of(&[("a", "1")]);
        let error = Place::new().unpack(Packing::JarByPattern(Some(pattern)), jar);
        assert!(
            matches!(error, Err(UnpackError::Pattern { .. })),
            "{pattern}: {error:?}"
        );
    }
}
