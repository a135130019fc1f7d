//! Properties to Hadoop's filters of web pages.

use hadoop_conf::{Expected, PropertyReader};
use node_web::site::filters::{
    BadCrossOrigin, BadCsrf, CrossOrigin, CsrfPrevention, Filters, Frames,
};

pub(super) const CSRF: &str = "yarn.nodemanager.webapp.rest-csrf.enabled";
const CSRF_HEADER: &str = "yarn.nodemanager.webapp.rest-csrf.custom-header";
const CSRF_METHODS: &str = "yarn.nodemanager.webapp.rest-csrf.methods-to-ignore";
const CSRF_BROWSERS: &str = "yarn.nodemanager.webapp.rest-csrf.browser-useragents-regex";
const FRAMES: &str = "yarn.webapp.xfs-filter.enabled";
const FRAME_OPTIONS: &str = "yarn.nodemanager.webapp.xfs-filter.xframe-options";
const CROSS_ORIGIN: &str = "yarn.nodemanager.webapp.cross-origin.enabled";
const ANY_CROSS_ORIGIN: &str = "hadoop.http.cross-origin.enabled";
const INITIALIZERS: &str = "hadoop.http.filter.initializers";
const ORIGINS: &str = "hadoop.http.cross-origin.allowed-origins";
const METHODS: &str = "hadoop.http.cross-origin.allowed-methods";
const HEADERS: &str = "hadoop.http.cross-origin.allowed-headers";
const MAX_AGE: &str = "hadoop.http.cross-origin.max-age";

/// Class that adds the filter of origins.
const CROSS_ORIGIN_CLASS: &str = "org.apache.hadoop.security.HttpCrossOriginFilterInitializer";

/// Reads the filters; one that cannot be used is a problem, and is none.
pub(super) fn filters(reader: &mut PropertyReader<'_>) -> Filters {
    Filters {
        csrf: csrf(reader),
        cross_origin: cross_origin(reader),
        frames: frames(reader),
    }
}

/// Returns a text with its blanks, or nothing.
fn text(reader: &mut PropertyReader<'_>, name: &str) -> String {
    reader.untrimmed_text(name).unwrap_or_default()
}

fn csrf(reader: &mut PropertyReader<'_>) -> Option<CsrfPrevention> {
    let is_enabled = reader.flag(CSRF);
    let why = "without yarn.nodemanager.webapp.rest-csrf.enabled";
    let rule = reader.only_if(is_enabled, why, |reader| {
        let [header, methods, browsers] =
            [CSRF_HEADER, CSRF_METHODS, CSRF_BROWSERS].map(|name| text(reader, name));
        let rule = CsrfPrevention::new(&header, &methods, &browsers);
        rule.inspect_err(|error| {
            let name = match error {
                BadCsrf::Header => CSRF_HEADER,
                BadCsrf::UserAgents(_) => CSRF_BROWSERS,
            };
            reader.problem(name, Expected::Rule(error.to_string().into()));
        })
    });
    rule.ok().filter(|_| is_enabled)
}

/// Reads the filter of origins, which Hadoop has where its class is listed as well.
fn cross_origin(reader: &mut PropertyReader<'_>) -> Option<CrossOrigin> {
    let of_node = reader.flag(CROSS_ORIGIN);
    let of_all = reader.flag(ANY_CROSS_ORIGIN);
    let is_listed = reader
        .list(INITIALIZERS)
        .iter()
        .any(|class| class == CROSS_ORIGIN_CLASS);
    if of_node && !is_listed {
        let how =
            format!("as in Hadoop, no effect: {INITIALIZERS} does not list {CROSS_ORIGIN_CLASS}");
        reader.otherwise(CROSS_ORIGIN, how);
    }
    let is_enabled = (of_node || of_all) && is_listed;
    let why = "without the filter of other origins";
    let rule = reader.only_if(is_enabled, why, |reader| {
        let [origins, methods, headers, max_age] =
            [ORIGINS, METHODS, HEADERS, MAX_AGE].map(|name| text(reader, name));
        let rule = CrossOrigin::new(&origins, &methods, &headers, &max_age);
        rule.inspect_err(|error| {
            let name = match error {
                BadCrossOrigin::Origins(_) => ORIGINS,
                BadCrossOrigin::Methods => METHODS,
                BadCrossOrigin::Headers => HEADERS,
                BadCrossOrigin::MaxAge => MAX_AGE,
            };
            reader.problem(name, Expected::Rule(error.to_string().into()));
        })
    });
    rule.ok().filter(|_| is_enabled)
}

fn frames(reader: &mut PropertyReader<'_>) -> Frames {
    let is_enabled = reader.flag(FRAMES);
    let why = "without yarn.webapp.xfs-filter.enabled";
    let frames = reader.only_if(is_enabled, why, |reader| {
        let options = reader.text(FRAME_OPTIONS).unwrap_or_default();
        let frames = Frames::of(&options);
        if frames.is_none() {
            let rule = "must be printable text, which is sent in a header";
            reader.problem(FRAME_OPTIONS, Expected::Rule(rule.into()));
        } else if is_enabled && !Frames::is_known(&options) {
            let how = "browsers do not know it: every page may show the node's in a frame";
            reader.otherwise(FRAME_OPTIONS, how);
        }
        frames
    });
    frames.filter(|_| is_enabled).unwrap_or_else(Frames::of_all)
}
