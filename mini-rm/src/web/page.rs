//! The page for people: what this ResourceManager is and is not, its nodes and its applications. Plain HTML without
//! scripts; every text that came from elsewhere is escaped on its way in.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use crate::applications::Application;
use crate::core::{Core, RM_VERSION};
use crate::nodes::Node;

/// Rows of a table: a page stays readable and below some 500 KiB whatever the cluster is. REST has all.
const ROWS_MAX: usize = 1_000;

/// Characters of a text from elsewhere in a cell.
const CELL_CHARS_MAX: usize = 300;

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
<title>ResourceManager for trials</title><style>body{font-family:sans-serif;margin:1em 2em}\
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left;vertical-align:top}\
.is-not{border:2px solid #b00;padding:.6em;max-width:60em}</style></head><body>\n\
<h1>A ResourceManager for trials</h1>\n\
<p class=\"is-not\"><strong>This is not a cluster manager.</strong> It has one queue and no shares in it, no high \
availability, and it keeps nothing over a restart. There is no security beyond the tokens of masters and nodes: anybody \
may submit applications and end them.</p>\n";

/// The whole page.
pub(super) fn cluster(core: &Core) -> String {
    let mut page = HEAD.to_owned();
    write_page(&mut page, core).expect("writing to a string does not fail");
    page.push_str("</body></html>\n");
    page
}

/// As the text of an element or the value of a quoted attribute.
fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

/// A text from elsewhere, cut and escaped.
fn cell(text: &str) -> String {
    if text.chars().nth(CELL_CHARS_MAX).is_none() {
        return escape(text).into_owned();
    }
    let cut: String = text.chars().take(CELL_CHARS_MAX).collect();
    format!("{}…", escape(&cut))
}

/// A link, if the text is an address of the web; otherwise the text.
fn link(address: &str) -> String {
    let text = cell(address);
    if address.starts_with("http://") || address.starts_with("https://") {
        return format!("<a href=\"{}\">{text}</a>", escape(address));
    }
    text
}

fn write_page(page: &mut String, core: &Core) -> fmt::Result {
    let limit = core.queue_limit();
    let limit = limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    writeln!(
        page,
        "<p>Started {} (milliseconds since 1970); speaks the protocols of Hadoop {RM_VERSION}. Nodes may keep {limit} \
         opportunistic containers waiting. As JSON: <a href=\"/ws/v1/cluster/info\">info</a>, \
         <a href=\"/ws/v1/cluster/metrics\">metrics</a>, <a href=\"/ws/v1/cluster/nodes\">nodes</a>, \
         <a href=\"/ws/v1/cluster/apps\">applications</a>, <a href=\"/ws/v1/cluster/scheduler\">scheduler</a>.</p>",
        core.started_ms()
    )?;
    let nodes: Vec<&Node> = core.nodes().collect();
    writeln!(page, "<h2>Nodes: {}</h2>", nodes.len())?;
    note_of_cut(page, nodes.len())?;
    page.push_str(
        "<table><tr><th>Node</th><th>Rack</th><th>State</th><th>Health</th><th>Guaranteed</th><th>Promised</th>\
         <th>Offers</th><th>Opportunistic running</th><th>Waiting</th><th>May wait</th></tr>\n",
    );
    for node in nodes.into_iter().take(ROWS_MAX) {
        write_node(page, core, node)?;
    }
    page.push_str("</table>\n");
    let applications = core.applications().count();
    writeln!(page, "<h2>Applications: {applications}</h2>")?;
    note_of_cut(page, applications)?;
    page.push_str(
        "<table><tr><th>Application</th><th>Name</th><th>User</th><th>Type</th><th>State</th><th>Final status</th>\
         <th>Attempt</th><th>Containers</th><th>Promised</th><th>Progress</th><th>Its page</th><th>Diagnostics</th></tr>\n",
    );
    for application in core.applications().rev().take(ROWS_MAX) {
        write_application(page, core, application)?;
    }
    page.push_str("</table>\n");
    Ok(())
}

fn note_of_cut(page: &mut String, count: usize) -> fmt::Result {
    if count > ROWS_MAX {
        writeln!(page, "<p>{ROWS_MAX} of them are shown.</p>")?;
    }
    Ok(())
}

fn write_node(page: &mut String, core: &Core, node: &Node) -> fmt::Result {
    let address = format!("http://{}/", node.http_address);
    let capacity = core.load_of(node);
    let capacity = capacity.map_or_else(|| "-".to_owned(), |load| load.queue_capacity.to_string());
    writeln!(
        page,
        "<tr><td><a href=\"{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{capacity}</td></tr>",
        escape(&address),
        cell(&node.id.to_string()),
        cell(&node.rack),
        node.state.as_str(),
        cell(&node.health_report),
        core.guaranteed_of(node),
        core.used_of(node),
        node.capability,
        node.opportunistic.running,
        node.opportunistic.queued,
    )
}

fn write_application(page: &mut String, core: &Core, application: &Application) -> fmt::Result {
    let attempt = application.attempt();
    let (containers, promised) = core.holdings(application);
    writeln!(
        page,
        "<tr><td><a href=\"/ws/v1/cluster/apps/{0}\">{0}</a></td><td>{1}</td><td>{2}</td><td>{3}</td><td>{4}</td>\
         <td>{5}</td><td>{6}</td><td>{containers}</td><td>{promised}</td><td>{7:.0} %</td><td>{8}</td><td>{9}</td></tr>",
        application.id,
        cell(application.submission.application_name()),
        cell(&application.user),
        cell(application.submission.application_type()),
        application.state.as_str(),
        super::json::final_status(application),
        attempt.id.attempt_id,
        attempt.progress * 100.0,
        link(&attempt.tracking_url),
        cell(&application.diagnostics),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_elsewhere_cannot_leave_their_cell() {
        let evil = "</td><script>alert('\"&')</script>";
        assert_eq!(
            cell(evil),
            "&lt;/td&gt;&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;"
        );
    }

    #[test]
    fn long_texts_are_cut() {
        let text = cell(&"é".repeat(1_000));
        assert_eq!(text.chars().count(), CELL_CHARS_MAX + 1);
    }

    #[test]
    fn only_addresses_of_the_web_become_links() {
        assert_eq!(link("javascript:alert(1)"), "javascript:alert(1)");
        assert_eq!(
            link("http://m:1/\""),
            "<a href=\"http://m:1/&quot;\">http://m:1/&quot;</a>"
        );
    }
}
