//! Files as operators write them, valid and invalid, with the answers of Hadoop 3.4.2's
//! `Configuration`.

use std::fs;

use proptest::prelude::*;
use tempfile::TempDir;

use super::parse::{Sink, parse};
use super::*;

/// Returns the properties of one file, as `name=value` in the order of names, or the error's text.
fn read(xml: &str) -> Result<String, String> {
    read_with(xml, &[])
}

fn read_with(xml: &str, others: &[(&str, &str)]) -> Result<String, String> {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("site.xml"), xml).unwrap();
    for (name, text) in others {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut properties = Properties::new(Environment::default());
    let folders = [folder.path().to_path_buf()];
    let result = properties.add_file(&folders, "site.xml");
    result.map_err(|error| error.to_string())?;
    let pairs: Vec<String> = properties
        .names()
        .map(|name| format!("{name}={}", properties.get(name).unwrap().unwrap().text))
        .collect();
    Ok(pairs.join(" "))
}

fn configuration(body: &str) -> String {
    format!("<?xml version=\"1.0\"?>\n<configuration>{body}</configuration>\n")
}

fn property(name: &str, value: &str) -> String {
    format!("<property><name>{name}</name><value>{value}</value></property>\n")
}

const XI: &str = "xmlns:xi='http://www.w3.org/2001/XInclude'";
const INCLUDED: &str =
    "<configuration><property><name>inc</name><value>1</value></property></configuration>";

#[test]
fn names_are_trimmed_and_values_are_not() {
    assert_eq!(
        read(&configuration(&property(" a \n", " v \n"))),
        Ok("a= v \n".to_owned())
    );
}

#[test]
fn properties_are_read_as_hadoop_reads_them() {
    for (body, hadoop) in [
        (property("a", ""), ""),
        ("<property><name>a</name></property>".to_owned(), ""),
        ("<property><value>v</value></property>".to_owned(), ""),
        (property("a", "1") + &property("a", ""), "a=1"),
        ("<property name='a' value='1'/>".to_owned(), "a=1"),
        (
            "<property name='a'><value>2</value></property>".to_owned(),
            "a=2",
        ),
        (
            property("a", "x<!-- c -->y<![CDATA[<z>]]>&lt;&#65;&#x42;"),
            "a=xy<z><AB",
        ),
        (property("a", "x<b>y</b>z"), "a=xyz"),
        (
            "<property><vaule>1</vaule><name>a</name></property>".to_owned(),
            "",
        ),
        ("<PROPERTY><NAME>a</NAME></PROPERTY>".to_owned(), ""),
        ("text".to_owned() + &property("a", "1"), "a=1"),
        (property("", "1"), ""),
        (
            "<property><name>n</name><value>1</value><name>m</name></property>".to_owned(),
            "m=1",
        ),
    ] {
        assert_eq!(read(&configuration(&body)), Ok(hadoop.to_owned()), "{body}");
    }
    assert_eq!(
        read("<properties><property name='a' value='1'/></properties>"),
        Ok("a=1".to_owned())
    );
}

#[test]
fn a_final_value_stays_and_whoever_tries_to_change_it_is_told() {
    let first = "<property><name>a</name><value>1</value><final>true</final></property>";
    assert_eq!(
        read(&configuration(&(first.to_owned() + &property("a", "2")))),
        Ok("a=1".to_owned())
    );

    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("core-site.xml"), configuration(first)).unwrap();
    fs::write(
        folder.path().join("yarn-site.xml"),
        configuration(&property("a", "2")),
    )
    .unwrap();
    let folders = [folder.path().to_path_buf()];
    let mut properties = Properties::new(Environment::default());
    assert!(properties.add_file(&folders, "core-site.xml").unwrap());
    assert!(properties.add_file(&folders, "yarn-site.xml").unwrap());
    assert_eq!(properties.raw("a"), Some("1"));
    let [Notice::FinalKept { name, refused, .. }] = properties.notices() else {
        panic!("{:?}", properties.notices());
    };
    assert_eq!(name, "a");
    assert!(
        refused.to_string().ends_with("yarn-site.xml:2"),
        "{refused}"
    );
}

#[test]
fn final_is_true_only_when_written_exactly_so() {
    for text in [" true ", "TRUE", "yes"] {
        let first =
            format!("<property><name>a</name><value>1</value><final>{text}</final></property>");
        assert_eq!(
            read(&configuration(&(first + &property("a", "2")))),
            Ok("a=2".to_owned()),
            "{text}"
        );
    }
}

#[test]
fn a_default_that_is_loaded_later_hides_a_value_and_that_is_told() {
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("core-site.xml"),
        configuration(&property("a", "1")),
    )
    .unwrap();
    let mut properties = Properties::new(Environment::default());
    properties
        .add_file(&[folder.path().to_path_buf()], "core-site.xml")
        .unwrap();
    properties.add_defaults([("a", "0")].into_iter());
    properties.add_fallbacks([("a", "9"), ("b", "2")].into_iter());
    assert_eq!(properties.raw("a"), Some("0"));
    assert_eq!(properties.raw("b"), Some("2"));
    assert!(matches!(
        properties.notices(),
        [Notice::HiddenByDefault { .. }]
    ));
}

#[test]
fn text_that_is_no_document_is_refused_with_its_place() {
    for (xml, expected) in [
        ("", ":1: ends inside"),
        ("\n\n", ":3: ends inside"),
        ("<configuration>\n<property>", ":2: ends inside"),
        (
            "<configuration></configuration>\n<configuration/>",
            ":2: has something after",
        ),
        (
            "<configuration></configuration>junk",
            ":1: has something after",
        ),
        (
            "junk<configuration></configuration>",
            ":1: has text outside",
        ),
        ("<configuration>\n  <property></configuration>", ":2:13: "),
        ("<configuration>\n<a b=c/></configuration>", ":2: "),
        ("<configuration><", ":1:"),
        ("<configuration><a b='1' b='2' name/></configuration>", ""),
    ] {
        match read(xml) {
            Err(error) => assert!(error.contains(expected), "{xml:?} gave {error}"),
            // Attributes of elements without meaning are ignored, as in Hadoop.
            Ok(_) => assert!(xml.contains("<a "), "{xml:?} was accepted"),
        }
    }
}

#[test]
fn document_types_are_refused_before_any_entity_can_grow() {
    let bomb = "<!DOCTYPE c [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]><configuration>&b;</configuration>";
    let error = read(bomb).unwrap_err();
    assert!(error.contains("DOCTYPE"), "{error}");
    let error = read(&configuration(&property("a", "&nope;"))).unwrap_err();
    assert!(error.contains("&nope;"), "{error}");
}

#[test]
fn a_file_that_is_not_utf8_is_refused_with_its_line() {
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("site.xml"),
        b"<configuration>\n\xff</configuration>",
    )
    .unwrap();
    let result = Properties::new(Environment::default())
        .add_file(&[folder.path().to_path_buf()], "site.xml");
    assert!(matches!(
        result,
        Err(SiteXmlError::Malformed { line: 2, .. })
    ));
}

#[test]
fn a_file_beyond_the_bound_and_a_folder_are_refused() {
    let folder = TempDir::new().unwrap();
    let folders = [folder.path().to_path_buf()];
    fs::write(
        folder.path().join("large.xml"),
        vec![b' '; FILE_BYTES_MAX + 1],
    )
    .unwrap();
    fs::create_dir(folder.path().join("folder.xml")).unwrap();
    let mut properties = Properties::new(Environment::default());
    let large = properties.add_file(&folders, "large.xml");
    assert!(matches!(large, Err(SiteXmlError::TooLarge { .. })));
    let directory = properties.add_file(&folders, "folder.xml");
    assert!(matches!(directory, Err(SiteXmlError::NotAFile { .. })));
    assert!(!properties.add_file(&folders, "none.xml").unwrap());
}

#[test]
fn a_byte_order_mark_is_passed_over() {
    let xml = format!("\u{feff}{}", configuration(&property("a", "1")));
    assert_eq!(read(&xml), Ok("a=1".to_owned()));
}

#[test]
fn an_included_file_stands_where_the_include_stood() {
    let include = format!("<xi:include {XI} href='inc.xml'/>");
    let others = [("inc.xml", INCLUDED)];
    let before = configuration(&(property("inc", "0") + &include));
    assert_eq!(read_with(&before, &others), Ok("inc=1".to_owned()));
    let after = configuration(&(include + &property("inc", "2")));
    assert_eq!(read_with(&after, &others), Ok("inc=2".to_owned()));
}

#[test]
fn a_fallback_counts_only_when_the_file_is_missing() {
    let with = |href: &str, fallback: &str| {
        let xml = format!(
            "<xi:include {XI} href='{href}'>{fallback}</xi:include>{}",
            property("b", "1")
        );
        read_with(&configuration(&xml), &[("inc.xml", INCLUDED)])
    };
    let fallback = format!("<xi:fallback>{}</xi:fallback>", property("f", "1"));
    assert_eq!(with("none.xml", &fallback), Ok("b=1 f=1".to_owned()));
    assert_eq!(with("inc.xml", &fallback), Ok("b=1 inc=1".to_owned()));
    assert_eq!(with("none.xml", "<xi:fallback/>"), Ok("b=1".to_owned()));
    assert_eq!(
        with(
            "none.xml",
            "<xi:fallback><xi:include href='inc.xml'/></xi:fallback>"
        ),
        Ok("b=1 inc=1".to_owned())
    );
    assert_eq!(
        with(
            "inc.xml",
            "<xi:fallback><xi:include href='none.xml'/></xi:fallback>"
        ),
        Ok("b=1 inc=1".to_owned())
    );
    let error = with("none.xml", "").unwrap_err();
    assert!(error.contains("none.xml, which does not exist"), "{error}");
}

#[test]
fn an_include_by_uri_is_read_and_other_schemes_are_refused() {
    let folder = TempDir::new().unwrap();
    let target = folder.path().join("other.xml");
    fs::write(&target, INCLUDED).unwrap();
    let by_uri = |href: &str| read(&configuration(&format!("<xi:include {XI} href='{href}'/>")));
    assert_eq!(
        by_uri(&format!("file://{}", target.display())),
        Ok("inc=1".to_owned())
    );
    assert_eq!(
        by_uri(&format!("file:{}", target.display())),
        Ok("inc=1".to_owned())
    );
    for href in [
        "http://example.com/a.xml",
        "jar:file:/a!/b.xml",
        "file://host/a.xml",
    ] {
        let error = by_uri(href).unwrap_err();
        assert!(
            error.contains("only file: is accepted"),
            "{href} gave {error}"
        );
    }
}

#[test]
fn files_that_include_each_other_end_with_an_error() {
    let include = |href: &str| configuration(&format!("<xi:include {XI} href='{href}'/>"));
    let itself = read_with(&include("site.xml"), &[]).unwrap_err();
    assert!(itself.contains("in a circle"), "{itself}");
    let others = [("b.xml", include("c.xml")), ("c.xml", include("site.xml"))];
    let others = [
        ("b.xml", others[0].1.as_str()),
        ("c.xml", others[1].1.as_str()),
    ];
    let circle = read_with(&include("b.xml"), &others).unwrap_err();
    assert!(circle.contains("in a circle"), "{circle}");
}

#[test]
fn files_that_include_one_file_very_often_end_at_the_bound() {
    let many = format!("<xi:include {XI} href='inc.xml'/>").repeat(FILES_MAX);
    let error = read_with(&configuration(&many), &[("inc.xml", INCLUDED)]).unwrap_err();
    assert!(
        error.contains("files belong to the configuration"),
        "{error}"
    );
}

#[test]
fn an_old_name_sets_the_new_one() {
    let xml = configuration(&property("fs.default.name", "hdfs://a"));
    assert_eq!(read(&xml), Ok("fs.defaultFS=hdfs://a".to_owned()));
}

#[test]
fn origins_name_file_and_line() {
    let folder = TempDir::new().unwrap();
    let xml =
        "<configuration>\n<property>\n<name>a</name><value>1</value></property></configuration>";
    fs::write(folder.path().join("site.xml"), xml).unwrap();
    let mut properties = Properties::new(Environment::default());
    properties
        .add_file(&[folder.path().to_path_buf()], "site.xml")
        .unwrap();
    let origin = properties.origin("a").unwrap().to_string();
    assert!(origin.ends_with("site.xml:3"), "{origin}");
}

struct Nothing;

impl Sink for Nothing {
    fn property(&mut self, _: Item) -> Result<(), SiteXmlError> {
        Ok(())
    }
    fn include(&mut self, _: &str, _: usize) -> Result<bool, SiteXmlError> {
        Ok(false)
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = parse(&text, &Arc::from(Path::new("x")), &mut Nothing);
    }

    #[test]
    fn no_mix_of_pieces_panics(pieces in prop::collection::vec(prop::sample::select(vec![
        "<configuration>", "</configuration>", "<property>", "</property>", "<property name='a'", " value=\"", "'/>",
        "<name>", "</name>", "<value>", "</value>", "<final>true</final>", "<xi:include href='x'>", "</xi:include>",
        "<xi:fallback>", "</xi:fallback>", "<![CDATA[", "]]>", "<!--", "-->", "&#x41;", "&#xFFFFFFFFF;", "&#0;", "&amp;", "&",
        ";", "<?xml version='9'?>", "<!DOCTYPE", "\u{e9}", "\n", "text", "<", ">", "/", "\u{0}",
    ]), 0..40)) {
        let _ = parse(&pieces.concat(), &Arc::from(Path::new("x")), &mut Nothing);
    }

    #[test]
    fn no_bytes_in_a_file_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("site.xml"), bytes).unwrap();
        let _ = Properties::new(Environment::default()).add_file(&[folder.path().to_path_buf()], "site.xml");
    }

    #[test]
    fn a_value_reads_back_from_its_escaped_form(value in "[^\u{0}-\u{1f}\u{fffe}\u{ffff}]{1,40}") {
        let escaped = quick_xml::escape::escape(&value);
        let xml = configuration(&property("a", &escaped));
        // `$` would be taken as a reference.
        prop_assume!(!value.contains('$'));
        prop_assert_eq!(read(&xml), Ok(format!("a={value}")));
    }
}
