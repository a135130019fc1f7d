//! Who sees what with `yarn.acl.enable`, and how callers are named.

use access_control::AccessRules;

use super::*;

const LOG: &str = "/containerlogs/container_1700000000000_0007_01_000001";

/// A node whose application is `alice`'s, visible to `bob`; `root` administers it.
async fn private(rules: AccessRules) -> Lab {
    let mut node = busy_node();
    node.applications[0].view_acl = AccessList::new("bob");
    node.containers[0].diagnostics = "its password".to_owned();
    let rules = AccessRules {
        enabled: true,
        administrators: AccessList::new("root"),
        own_user: "yarn".to_owned(),
        ..rules
    };
    let options = WebOptions {
        access: Arc::new(rules),
        ..WebOptions::default()
    };
    let lab = Lab::start_with(node, options).await;
    fs::write(lab.logs.join("stdout"), "its password").unwrap();
    lab
}

fn by(path: &str, user: &str) -> String {
    format!("{path}?user.name={user}")
}

#[tokio::test]
async fn what_a_container_wrote_is_for_those_who_may_see_it() {
    let lab = private(AccessRules::default()).await;
    let paths = [
        format!("/ws/v1/node/containers/{ID}"),
        format!("/ws/v1/node/containers/{ID}/logs/stdout"),
        format!("/ws/v1/node{LOG}/stdout"),
        format!("/node/container/{ID}"),
        format!("/node{LOG}/alice/stdout"),
    ];
    for path in &paths {
        for user in ["alice", "bob", "root", "yarn"] {
            let reply = lab.get(&by(path, user)).await;
            assert!(reply.text().contains("its password"), "{user} {path}");
        }
        assert!(
            lab.get(path).await.text().contains("its password"),
            "{path}"
        );
        for user in ["eve", "Alice", "alice,bob", "*"] {
            let reply = lab.get(&by(path, user)).await;
            assert!(!reply.text().contains("its password"), "{user} {path}");
        }
    }
    let why = "User [eve] is not authorized to view the logs for application application_1700000000000_0007";
    for path in [
        &paths[1],
        &paths[2],
        &paths[4],
        &format!("/node{LOG}/alice"),
    ] {
        let reply = lab.get(&by(path, "eve")).await;
        assert_eq!(reply.status, 403, "{path}");
        assert!(reply.text().contains(why), "{path}: {}", reply.text());
    }
    let path = format!("/ws/v1/node/containers/{ID}/logs");
    let reply = lab.get(&by(&path, "eve")).await;
    let exception = &reply.json()["RemoteException"];
    assert_eq!(
        (reply.status, &exception["exception"]),
        (403, &json!("ForbiddenException"))
    );
    assert_eq!(exception["message"], format!("java.lang.Exception: {why}"));
}

#[tokio::test]
async fn names_of_files_are_hidden_with_the_files() {
    let lab = private(AccessRules::default()).await;
    for path in [
        "/ws/v1/node/containers".to_owned(),
        format!("/ws/v1/node/containers/{ID}"),
    ] {
        assert!(lab.get(&by(&path, "bob")).await.text().contains("stdout"));
        let hidden = lab.get(&by(&path, "eve")).await;
        assert!(
            hidden.text().contains(ID) && !hidden.text().contains("stdout"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn lists_can_be_cut_to_what_the_caller_may_see() {
    let rules = AccessRules {
        filter_lists: true,
        ..AccessRules::default()
    };
    let lab = private(rules).await;
    for path in [
        "/ws/v1/node/apps",
        "/ws/v1/node/containers",
        "/node/allApplications",
        "/node/allContainers",
    ] {
        let shown = async |user| {
            lab.get(&by(path, user))
                .await
                .text()
                .contains("1700000000000_0007")
        };
        assert!(shown("bob").await && shown("root").await, "{path}");
        assert!(!shown("eve").await, "{path}");
    }
    for path in [
        "/live.json",
        "/live",
        "/node/roleHistories",
        "/ws/v1/node/agent/roleHistories",
    ] {
        assert_eq!(lab.get(&by(path, "bob")).await.status, 403, "{path}");
    }
    let live = lab.get(&by("/", "bob")).await;
    assert_eq!((live.status, live.header("location")), (307, Some("/node")));
    assert_eq!(lab.get(&by("/", "root")).await.status, 200);
}

#[tokio::test]
async fn a_browser_is_known_by_its_cookie() {
    let lab = private(AccessRules::default()).await;
    let path = format!("/node{LOG}/alice/stdout");
    let first = lab.get(&by(&path, "eve")).await;
    let cookie = first
        .header("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    let second = lab.send(&request).await;
    assert_eq!((second.status, second.header("set-cookie")), (403, None));
    // Clients of Hadoop get it by a request of its own.
    let request =
        "OPTIONS /jmx?user.name=bob HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let asked = lab.send(request).await;
    assert_eq!(asked.status, 200);
    assert!(
        asked
            .header("set-cookie")
            .unwrap()
            .starts_with("hadoop.auth=\"u=bob&")
    );
    assert_eq!(asked.header("allow"), Some("GET, HEAD, OPTIONS"));
}

#[tokio::test]
async fn nameless_callers_can_be_kept_out() {
    let rules = AccessRules {
        anonymous_allowed: false,
        ..AccessRules::default()
    };
    let lab = private(rules).await;
    for path in [
        "/",
        "/metrics",
        "/jmx",
        "/node",
        "/ws/v1/node",
        "/live",
        "/?user.name=",
    ] {
        let reply = lab.get(path).await;
        assert_eq!(reply.status, 401, "{path}");
        assert_eq!(
            reply.header("www-authenticate"),
            Some("PseudoAuth"),
            "{path}"
        );
    }
    for path in ["/health", "/static/agent.css", "/node?user.name=eve"] {
        assert_eq!(lab.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn numbers_can_be_for_administrators() {
    let rules = |authorization| AccessRules {
        instrumentation_requires_admin: true,
        authorization,
        ..AccessRules::default()
    };
    let lab = private(rules(true)).await;
    for path in ["/jmx", "/prom", "/metrics"] {
        assert_eq!(lab.get(path).await.status, 403, "{path}");
        let eve = lab.get(&by(path, "eve")).await;
        assert_eq!(
            eve.text(),
            "User eve is unauthorized to access this page.\n"
        );
        assert_eq!(lab.get(&by(path, "root")).await.status, 200, "{path}");
    }
    // As in Hadoop, everybody passes where authorization is off.
    assert_eq!(private(rules(false)).await.get("/jmx").await.status, 200);
}
