//! `/logLevel`: what `yarn daemonlog` reads, and who may set levels.

use std::sync::Mutex;

use access_control::AccessRules;

use super::*;

/// Levels that were set, in order.
type Set = Arc<Mutex<Vec<(String, String)>>>;

async fn lab(access: AccessRules) -> (Lab, Set) {
    let set = Set::default();
    let sets = Arc::clone(&set);
    let levels = LogLevels::new(
        |target| if target == "wire" { "WARN" } else { "INFO" }.to_owned(),
        move |target, level| {
            sets.lock()
                .unwrap()
                .push((target.to_owned(), level.to_owned()));
            Ok(())
        },
    );
    let options = WebOptions {
        access: Arc::new(access),
        log_levels: Some(levels),
        ..WebOptions::default()
    };
    (Lab::start_with(busy_node(), options).await, set)
}

/// Returns the lines that `yarn daemonlog` prints of an answer (Hadoop: `LogLevel.CLI.process`).
fn printed(page: &str) -> Vec<String> {
    let marked = page
        .lines()
        .filter(|line| line.starts_with("<!-- OUTPUT -->"));
    let shown = marked.map(|line| {
        let parts = line
            .split('<')
            .map(|part| part.split_once('>').map_or(part, |(_, text)| text));
        parts.collect::<String>()
    });
    shown.collect()
}

#[tokio::test]
async fn levels_are_shown_and_set_as_hadoops_client_expects() {
    let (lab, set) = lab(AccessRules::default()).await;
    let reply = lab.get("/logLevel?log=org.apache.hadoop.ipc.Server").await;
    assert_eq!(reply.status, 200);
    let shown = [
        "Submitted Class Name: org.apache.hadoop.ipc.Server",
        "Log Class: wire",
        "Effective Level: WARN",
    ];
    assert_eq!(printed(&reply.text()), shown);
    assert!(set.lock().unwrap().is_empty());
    let reply = lab.get("/logLevel?log=localize&level=debug").await;
    let shown = [
        "Submitted Class Name: localize",
        "Log Class: localize",
        "Submitted Level: debug",
        "Setting Level to debug ...",
        "Effective Level: INFO",
    ];
    assert_eq!(printed(&reply.text()), shown);
    let expected = ("localize".to_owned(), "DEBUG".to_owned());
    assert_eq!(*set.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn bad_levels_and_names_change_nothing_and_are_shown_escaped() {
    let (lab, set) = lab(AccessRules::default()).await;
    let reply = lab.get("/logLevel?log=wire&level=%3Cscript%3E").await;
    assert!(reply.text().contains("Bad Level : <b>&lt;script&gt;</b>"));
    let reply = lab.get("/logLevel?log=wire%3Dtrace%2Cx&level=DEBUG").await;
    assert!(reply.text().contains("Bad Class Name"), "{}", reply.text());
    assert_eq!(lab.get("/logLevel").await.status, 200);
    assert!(set.lock().unwrap().is_empty());
}

#[tokio::test]
async fn only_administrators_set_levels_where_there_is_authorization() {
    let rules = AccessRules {
        authorization: true,
        administrators: AccessList::new("root"),
        own_user: "yarn".to_owned(),
        ..AccessRules::default()
    };
    let (lab, set) = lab(rules).await;
    for caller in ["", "&user.name=eve"] {
        let path = format!("/logLevel?log=wire&level=TRACE{caller}");
        assert_eq!(lab.get(&path).await.status, 403, "{caller}");
    }
    assert!(set.lock().unwrap().is_empty());
    let path = "/logLevel?log=wire&level=TRACE&user.name=root";
    assert_eq!(lab.get(path).await.status, 200);
    assert_eq!(set.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_browser_reads_levels_and_sets_none() {
    let (lab, set) = lab(AccessRules::default()).await;
    for (query, status) in [("", 200), ("&level=TRACE", 403)] {
        let request = format!(
            "GET /logLevel?log=wire{query} HTTP/1.1\r\nHost: localhost\r\n\
             User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(lab.send(&request).await.status, status);
    }
    assert!(set.lock().unwrap().is_empty());
}
