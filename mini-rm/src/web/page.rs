//! The page for people: what this ResourceManager is and is not, its nodes and its applications.
//! Plain HTML without scripts; every text that came from elsewhere is escaped on its way in.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use records::Resource;

use crate::applications::Application;
use crate::core::{Core, RM_VERSION};
use crate::nodes::Node;

/// Rows of a table: a page stays readable and below some 500 KiB whatever the cluster is. REST has
/// all.
const ROWS_MAX: usize = 1_000;

/// Characters of a text from elsewhere in a cell.
const CELL_CHARS_MAX: usize = 300;

/// Head of the page, with the look of the agent's pages. Colours repeat the words.
const HEAD: &str = concat!(
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<title>ResourceManager for trials</title><style>",
    include_str!("page.css"),
    "</style></head><body>\n<h1>A ResourceManager for trials</h1>\n",
    "<p class=\"is-not\"><strong>This is not a cluster manager.</strong> It has one queue and no shares in it, no high \
     availability, and it keeps nothing over a restart. There is no security beyond the tokens of masters and nodes: \
     anybody may submit applications and end them.</p>\n"
);

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
    let limit = match core.queue_limit() {
        Some(limit) => format!("Each may keep {limit} opportunistic containers waiting."),
        None => "Nothing limits their queues.".to_owned(),
    };
    writeln!(
        page,
        "<p>Speaks the protocols of Hadoop {RM_VERSION}. As JSON: <a href=\"/ws/v1/cluster/info\">info</a>, \
         <a href=\"/ws/v1/cluster/metrics\">metrics</a>, <a href=\"/ws/v1/cluster/nodes\">nodes</a>, \
         <a href=\"/ws/v1/cluster/apps\">applications</a>, <a href=\"/ws/v1/cluster/scheduler\">scheduler</a>.</p>",
    )?;
    let nodes: Vec<&Node> = core.nodes().collect();
    writeln!(page, "<h2>Nodes: {}</h2>\n<p>{limit}</p>", nodes.len())?;
    note_of_cut(page, nodes.len())?;
    page.push_str(
        "<div><table><tr><th>Node</th><th>State</th><th class=\"n\">Running, guaranteed</th>\
         <th>Promised to them</th><th>Offers</th><th class=\"n\">Running, opportunistic</th>\
         <th class=\"n\">Waiting</th><th class=\"n\">Room to wait</th></tr>\n",
    );
    for node in nodes.into_iter().take(ROWS_MAX) {
        write_node(page, core, node)?;
    }
    page.push_str("</table></div>\n");
    let applications = core.applications().count();
    writeln!(page, "<h2>Applications: {applications}</h2>")?;
    note_of_cut(page, applications)?;
    page.push_str(
        "<div><table><tr><th>Application</th><th>Name</th><th>User</th><th>State</th>\
         <th class=\"n\">Containers</th><th>Promised</th><th class=\"n\">Progress</th></tr>\n",
    );
    for application in core.applications().rev().take(ROWS_MAX) {
        write_application(page, core, application)?;
    }
    page.push_str("</table></div>\n");
    Ok(())
}

/// A size in words; Hadoop's own text for it has angle brackets.
fn size(resource: Resource) -> String {
    let cores = if resource.vcores == 1 {
        "vcore"
    } else {
        "vcores"
    };
    format!("{} MB, {} {cores}", resource.memory_mb, resource.vcores)
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
        "<tr><td><a href=\"{}\">{}</a><br><small>{}</small></td><td>{}<br><small>{}</small></td>\
         <td class=\"n\">{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{capacity}</td></tr>",
        escape(&address),
        cell(&node.id.to_string()),
        cell(&node.rack),
        node.state.as_str(),
        cell(&node.health_report),
        core.guaranteed_of(node),
        size(core.used_of(node)),
        size(node.capability),
        node.opportunistic.running,
        node.opportunistic.queued,
    )
}

fn write_application(page: &mut String, core: &Core, application: &Application) -> fmt::Result {
    let attempt = application.attempt();
    let (containers, promised) = core.holdings(application);
    let tries = match attempt.id.attempt_id {
        0 | 1 => String::new(),
        number => format!(", attempt {number}"),
    };
    writeln!(
        page,
        "<tr><td><a href=\"/ws/v1/cluster/apps/{0}\">{0}</a></td><td>{1}<br><small>{2}</small></td><td>{3}</td>\
         <td>{4}{5}{tries}</td><td class=\"n\">{containers}</td><td>{6}</td><td class=\"n\">{7:.0} %</td></tr>",
        application.id,
        cell(application.submission.application_name()),
        cell(application.submission.application_type()),
        cell(&application.user),
        application.state.as_str(),
        match super::json::final_status(application) {
            "UNDEFINED" => String::new(),
            status => format!(", {status}"),
        },
        size(promised),
        attempt.progress * 100.0,
    )?;
    let more = [link(&attempt.tracking_url), cell(&application.diagnostics)];
    let more: Vec<String> = more.into_iter().filter(|text| !text.is_empty()).collect();
    if more.is_empty() {
        return Ok(());
    }
    let more = more.join("<br>");
    writeln!(
        page,
        "<tr class=\"more\"><td colspan=\"7\"><small>{more}</small></td></tr>"
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
    fn a_size_has_nothing_that_a_browser_takes_for_an_element() {
        assert_eq!(size(Resource::new(1_024, 1)), "1024 MB, 1 vcore");
        assert_eq!(size(Resource::new(0, 0)), "0 MB, 0 vcores");
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
