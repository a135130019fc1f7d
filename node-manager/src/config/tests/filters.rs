//! Hadoop's filters of web pages.

use node_web::site::filters::{CrossOrigin, CsrfPrevention, Frames};

use super::*;

const INITIALIZERS: (&str, &str) = (
    "hadoop.http.filter.initializers",
    "org.apache.hadoop.security.AuthenticationFilterInitializer,\
     org.apache.hadoop.security.HttpCrossOriginFilterInitializer",
);
const CROSS_ORIGIN: (&str, &str) = ("webapp.cross-origin.enabled", "true");
const CSRF: (&str, &str) = ("webapp.rest-csrf.enabled", "true");

#[test]
fn without_a_word_pages_are_framed_by_the_node_alone_and_nothing_else_is_filtered() {
    let filters = config(&[]).web.filters;
    assert_eq!(filters.frames, Frames::of("SAMEORIGIN").unwrap());
    assert_eq!((filters.csrf, filters.cross_origin), (None, None));
}

#[test]
fn the_settings_of_filters_are_read() {
    let filters = config(&[CSRF, CROSS_ORIGIN, INITIALIZERS]).web.filters;
    let csrf = CsrfPrevention::new("X-XSRF-Header", "GET,OPTIONS,HEAD", "^Mozilla.*,^Opera.*");
    assert_eq!(filters.csrf, csrf.ok());
    let headers = "X-Requested-With,Content-Type,Accept,Origin";
    let cross_origin = CrossOrigin::new("*", "GET,POST,HEAD", headers, "1800");
    assert_eq!(filters.cross_origin, cross_origin.ok());
    let filters = config(&[
        CSRF,
        INITIALIZERS,
        ("webapp.rest-csrf.custom-header", "X-Own"),
        ("webapp.rest-csrf.methods-to-ignore", "GET, HEAD"),
        ("webapp.rest-csrf.browser-useragents-regex", "Firefox.*"),
        ("webapp.xfs-filter.xframe-options", "DENY"),
        ("hadoop.http.cross-origin.enabled", "true"),
        ("hadoop.http.cross-origin.allowed-origins", "https://a"),
        ("hadoop.http.cross-origin.allowed-methods", "GET"),
        ("hadoop.http.cross-origin.allowed-headers", "Accept"),
        ("hadoop.http.cross-origin.max-age", "60"),
    ]);
    let filters = filters.web.filters;
    let csrf = CsrfPrevention::new("X-Own", "GET, HEAD", "Firefox.*");
    assert_eq!(filters.csrf, csrf.ok());
    let cross_origin = CrossOrigin::new("https://a", "GET", "Accept", "60");
    assert_eq!(filters.cross_origin, cross_origin.ok());
    assert_eq!(filters.frames, Frames::of("DENY").unwrap());
    let open = config(&[("yarn.webapp.xfs-filter.enabled", "false")]);
    assert_eq!(open.web.filters.frames, Frames::of_all());
}

#[test]
fn filters_that_do_not_do_what_they_seem_to_are_warned_of() {
    let told = warnings(&[CROSS_ORIGIN]);
    assert!(
        told.len() == 1 && told[0].contains("as in Hadoop, no effect"),
        "{told:?}"
    );
    assert_eq!(config(&[CROSS_ORIGIN]).web.filters.cross_origin, None);
    let told = warnings(&[("webapp.xfs-filter.xframe-options", "ALLOWALL")]);
    assert!(
        told.len() == 1 && told[0].contains("every page may show"),
        "{told:?}"
    );
}

#[test]
fn settings_of_filters_that_cannot_be_used_are_refused_by_name() {
    let endless = "regex:(a|b)\\1";
    for (on, name, value) in [
        (CSRF, "webapp.rest-csrf.custom-header", "a header"),
        (
            CSRF,
            "webapp.rest-csrf.browser-useragents-regex",
            "Mozilla(?=/)",
        ),
        (
            CROSS_ORIGIN,
            "hadoop.http.cross-origin.allowed-origins",
            endless,
        ),
        (
            CROSS_ORIGIN,
            "hadoop.http.cross-origin.allowed-methods",
            "GET\u{7f}",
        ),
    ] {
        let told = problems(&[on, INITIALIZERS, (name, value)]);
        assert!(told.len() == 1 && told[0].contains(name), "{told:?}");
        // Hadoop reads it only with the filter.
        let told = warnings(&[(name, value)]);
        assert!(told.len() == 1 && told[0].contains("without"), "{told:?}");
    }
}
