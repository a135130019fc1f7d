//! Properties to sections: the admin socket.

use hadoop_conf::PropertyReader;
use hadoop_conf::site_xml::Origin;

use super::sections::AdminConfig;

const SOCKET: &str = "yarn.nodemanager.agent.admin.socket";

/// Reads where the admin socket is. Of several paths the first counts; an empty value turns the
/// socket off.
pub(super) fn admin(reader: &mut PropertyReader<'_>) -> AdminConfig {
    let is_off = reader
        .properties()
        .raw(SOCKET)
        .is_some_and(|text| text.trim().is_empty());
    let paths = if is_off {
        // Asked for so that it counts as read.
        let _ = reader.text(SOCKET);
        Vec::new()
    } else {
        reader.paths(SOCKET)
    };
    AdminConfig {
        socket: paths.into_iter().next(),
        is_required: reader.origin(SOCKET) != Origin::Default,
        group: reader.text("yarn.nodemanager.agent.admin.group"),
    }
}
