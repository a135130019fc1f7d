//! Zip archives, and jars that a pattern unpacks in part.

use super::*;

#[test]
fn a_zip_is_unpacked_and_its_links_are_plain_files() {
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
    assert!(place.path("empty").is_dir());
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
