use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::testing::{self, Job, attempt, hash, target};

const PORT: u16 = 23_562;

/// Returns the head of a request with the right hash.
fn head(target: &str) -> Head {
    let request = testing::request(PORT, target);
    let (head, _) = Head::read(request.as_bytes()).unwrap().unwrap();
    head
}

fn check(job: &Job, head: &Head) -> Result<Fetch, Refusal> {
    Fetch::check(head, &job.jobs, PORT)
}

/// Returns map ids and lengths of what a request gets, or status and text of its refusal.
fn locate(job: &Job, target: &str) -> Result<Vec<(String, u64)>, (Status, String)> {
    let fetch = check(job, &head(target));
    let segments = fetch.and_then(|fetch| fetch.locate(&Indexes::new(1 << 20)));
    let segments = segments.map_err(|refusal| (refusal.status, refusal.text))?;
    let found = segments.iter().map(|segment| {
        let map = segment.map.as_str().to_owned();
        (map, segment.partition.part_length)
    });
    Ok(found.collect())
}

fn refusal(job: &Job, head: &Head) -> (Status, String) {
    let refusal = check(job, head).err().unwrap();
    (refusal.status, refusal.text)
}

#[test]
fn checks_come_in_hadoops_order_and_with_its_texts() {
    let job = Job::new();
    let refused = |target: &str| refusal(&job, &head(target));
    let bad = |text: &str| (Status::BadRequest, text.to_owned());
    let unauthorized = |text: &str| (Status::Unauthorized, text.to_owned());
    let required = bad("Required param job, map and reduce");
    assert_eq!(refused("/mapOutput"), required);
    assert_eq!(refused("/mapOutput?job=j&job=k&reduce=1"), required);
    let too_many = bad("Too many job/reduce parameters");
    assert_eq!(refused("/?job=j&job=k&reduce=x&map=m"), too_many);
    assert_eq!(refused("/?job=j&reduce=1&reduce=1&map=m"), too_many);
    let number = bad("Bad reduce parameter");
    for reduce in ["x", "", "1+", "2147483648", "0x1"] {
        let target = format!("/?job=j&reduce={reduce}&map=m");
        assert_eq!(refused(&target), number, "{reduce}");
    }
    let unknown = unauthorized("Can't find job token for job j !!");
    assert_eq!(refused("/?job=j&reduce=1&map=m"), unknown);
    let mut without = head(&target("1", "m"));
    without.url_hash = None;
    let text = "fetcher cannot be authenticated";
    assert_eq!(refusal(&job, &without), unauthorized(text));
    let text = "Verification of the hashReply failed";
    for wrong in [hash("23563/x"), "?".to_owned(), String::new()] {
        without.url_hash = Some(wrong);
        assert_eq!(refusal(&job, &without), unauthorized(text));
    }
}

#[test]
fn a_signed_request_is_answered_for_its_maps_in_order() {
    let job = Job::new();
    job.write("l0", &attempt(0), &[b"aaaa", b"bbbbb"]);
    job.write("l1", &attempt(1), &[b"", b"cccccc"]);
    let (m0, m1) = (attempt(0), attempt(1));
    let both = [(m0.clone(), 5), (m1.clone(), 6)];
    let maps = format!("{m0},{m1}");
    assert_eq!(locate(&job, &target("1", &maps)).unwrap(), both);
    let repeated = format!("{m1}&map={m0},{m0},");
    let found = locate(&job, &target("%2B1", &repeated)).unwrap();
    assert_eq!(found, [&both[1..], &both[..1], &both[..1]].concat());
    let empty = locate(&job, &target("0", &m1)).unwrap();
    assert_eq!(empty, [(m1, 0)]);
}

#[test]
fn outputs_that_cannot_be_sent_are_errors_with_hadoops_texts() {
    let job = Job::new();
    let m0 = attempt(0);
    let refused = |reduce: &str| locate(&job, &target(reduce, &attempt(0))).unwrap_err();
    let error = |text: String| (Status::InternalError, text);
    let folder = "usercache/joe/appcache/application_1700000000000_0007/output";
    let missing = |file: &str| {
        let path = format!("{folder}/{m0}/{file}");
        error(format!("Could not find {path} in any of the directories"))
    };
    assert_eq!(refused("0"), missing("file.out.index"));
    job.write("l0", &m0, &[b"aaaa", b"bbbb"]);
    let text = format!("Invalid request  Map Id = {m0} Reducer = 2 Index Info Length = 2");
    assert_eq!(refused("2"), error(text));
    assert_eq!(refused("-1"), error(String::new()));
    let path = job.outputs("l0").join(&m0);
    fs::write(path.join("file.out"), b"aaaabbb").unwrap();
    let text = format!("{m0}/file.out is shorter than its index says");
    assert_eq!(refused("1"), error(text));
    fs::remove_file(path.join("file.out")).unwrap();
    assert_eq!(refused("0"), missing("file.out"));
    let mut index = fs::read(path.join("file.out.index")).unwrap();
    index[0] ^= 1;
    fs::write(path.join("file.out.index"), &index).unwrap();
    let text = "Error Reading IndexFileChecksum error reading spill index";
    assert_eq!(refused("0"), error(format!("{text}: {m0}/file.out.index")));
    fs::write(path.join("file.out.index"), b"").unwrap();
    assert_eq!(
        refused("0"),
        error("Error Reading IndexFilenull".to_owned())
    );
}

/// What stands outside of the folder of outputs, where a request must not reach.
fn with_bait(job: &Job) {
    for place in ["secret", "l0/secret", "l0/usercache/joe/secret"] {
        testing::write_output(&job.base.path().join(place), &[b"bait"]);
    }
}

#[test]
fn names_that_lead_out_of_the_folder_find_nothing() {
    let job = Job::new();
    with_bait(&job);
    let absolute = job.base.path().join("secret");
    let absolute = absolute.to_str().unwrap();
    for map in [
        "../../../../secret",
        "../../../../../../secret",
        "..%2F..%2F..%2F..%2Fsecret",
        "%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret",
        "..",
        ".",
        "",
        "m%00",
        "m/.",
        absolute,
        &absolute.replace('/', "%2F"),
        &"m".repeat(300),
    ] {
        let refused = locate(&job, &target("0", map)).unwrap_err();
        assert_eq!(refused.0, Status::InternalError, "{map}");
        assert!(refused.1.starts_with("Could not find "), "{}", refused.1);
    }
}

#[test]
fn links_in_the_place_of_folders_and_files_are_not_followed() {
    let job = Job::new();
    with_bait(&job);
    let (outputs, secret) = (job.outputs("l0"), job.base.path().join("secret"));
    symlink(&secret, outputs.join("linked")).unwrap();
    job.write("l0", "index", &[b"good"]);
    job.write("l0", "data", &[b"good"]);
    for (map, file) in [("index", "file.out.index"), ("data", "file.out")] {
        let link = outputs.join(map).join(file);
        fs::remove_file(&link).unwrap();
        symlink(secret.join(file), link).unwrap();
    }
    let pipe = outputs.join("pipe");
    fs::create_dir(&pipe).unwrap();
    nix::unistd::mkfifo(&pipe.join("file.out.index"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for map in ["linked", "index", "data", "pipe"] {
        let refused = locate(&job, &target("0", map)).unwrap_err();
        assert!(
            refused.1.starts_with("Could not find "),
            "{map}: {refused:?}"
        );
    }
    // A folder above that became a link, on one disk; the other still serves.
    job.write("l1", "m", &[b"good"]);
    let user = job.base.path().join("l0/usercache/joe");
    fs::rename(&user, job.base.path().join("moved")).unwrap();
    symlink(job.base.path().join("moved"), &user).unwrap();
    assert_eq!(locate(&job, &target("0", "m")).unwrap().len(), 1);
    assert!(locate(&job, &target("0", "data")).is_err());
}

#[test]
fn a_removed_job_and_one_with_a_new_secret_are_closed_to_the_old() {
    let job = Job::new();
    job.write("l0", "m", &[b"good"]);
    let target = target("0", "m");
    assert_eq!(locate(&job, &target).unwrap().len(), 1);
    let changed = crate::JobSecret(vec![1; 20]);
    job.jobs
        .register(testing::JOB, "joe".into(), &changed, Vec::new());
    assert_eq!(locate(&job, &target).unwrap_err().0, Status::Unauthorized);
    job.jobs.remove(testing::JOB);
    let refused = locate(&job, &target).unwrap_err();
    assert!(refused.1.starts_with("Can't find job token"), "{refused:?}");
}

#[test]
fn a_reply_opens_one_file_and_not_all() {
    let job = Job::new();
    job.write("l0", "m", &[b"good"]);
    let fetch = check(&job, &head(&target("0", "m,m,m"))).unwrap();
    let segments = fetch.locate(&Indexes::new(0)).unwrap();
    let open: Vec<_> = segments.iter().map(|s| s.file.is_some()).collect();
    assert_eq!(open, [true, false, false]);
}

proptest! {
    #[test]
    fn no_query_reaches_what_is_not_the_jobs(query in "[ -~]{0,200}", map in "[./%0-9a-zA-Z]{0,40}") {
        let job = Job::new();
        with_bait(&job);
        let query = query.replace([' ', '"'], "");
        for target in [target("0", &map), format!("/mapOutput?{query}")] {
            let request = testing::request(PORT, &target);
            if let Ok(Some((head, _))) = Head::read(request.as_bytes()) {
                let fetch = Fetch::check(&head, &job.jobs, PORT);
                prop_assert!(fetch.and_then(|f| f.locate(&Indexes::new(1_000))).is_err());
            }
        }
    }
}
