//! Fetches of small map outputs per second, and of large ones beside a plain `sendfile` of the same
//! bytes, while a thousand other connections are open. Prints; asserts nothing.
//!
//! `cargo bench -p shuffle`. Slow would be: fewer than 10,000 small fetches a second, or a large
//! fetch at less than 0.8 of the plain one. Reducers run on the same processors.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails is worth nothing"
)]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dir_handle::DirHandle;
use hmac::{Hmac, KeyInit as _, Mac as _};
use nix::sys::sendfile::sendfile;
use sha1::Sha1;
use shuffle::{JobSecret, Jobs, OutputFolder, RunningShuffle, ShuffleConfig, ShuffleServer};

const SECRET: [u8; 20] = [7; 20];
const SMALL_BYTES: usize = 1_024;
const LARGE_BYTES: usize = 256 << 20;
const OPEN: usize = 1_000;
const REDUCERS: usize = 4;
const FETCHES: usize = 20_000;
const ROUNDS: usize = 4;

fn main() {
    let base = tempfile::tempdir().unwrap();
    for (map, bytes) in [("small", SMALL_BYTES), ("large", LARGE_BYTES)] {
        write_output(&base.path().join("output").join(map), bytes);
    }
    let jobs = Arc::new(Jobs::default());
    let folder = OutputFolder {
        root: Arc::new(DirHandle::open_ambient(base.path()).unwrap()),
        below: "output".into(),
    };
    let secret = JobSecret(SECRET.to_vec());
    jobs.register("job_1_0001", "joe".into(), &secret, vec![folder]);
    let config = ShuffleConfig {
        port: 0,
        threads: 4,
        keep_alive_timeout: Duration::from_secs(600),
        // Both sides send from the page cache.
        manage_os_cache: false,
        ..ShuffleConfig::default()
    };
    let server = ShuffleServer::bind(config)
        .unwrap()
        .start(jobs, Arc::default())
        .unwrap();
    let _open: Vec<_> = (0..OPEN)
        .map(|_| {
            let mut stream = connect(server.port());
            fetch(&mut stream, &request(server.port(), "small"));
            stream
        })
        .collect();
    let took = on_each_reducer(|| small_fetches(&server));
    let fetches = (REDUCERS * FETCHES) as f64;
    println!("{:.0} fetches/s of {SMALL_BYTES} bytes", fetches / took);
    let data = base.path().join("output/large/file.out");
    let plain = serve_plainly(&data);
    // In turns, so that a slower moment of the machine is in both.
    let (mut ours, mut plainly) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        ours += on_each_reducer(|| {
            let request = request(server.port(), "large");
            fetch(&mut connect(server.port()), &request);
        });
        plainly += on_each_reducer(|| {
            let mut bytes = vec![0; 1 << 20];
            let mut stream = connect(plain);
            while stream.read(&mut bytes).unwrap() > 0 {}
        });
    }
    let gigabytes = (ROUNDS * REDUCERS * LARGE_BYTES) as f64 / 1e9;
    println!(
        "{:.2} GB/s of large outputs, {:.2} GB/s by plain sendfile: ratio {:.2}, with {OPEN} open \
         connections",
        gigabytes / ours,
        gigabytes / plainly,
        plainly / ours
    );
}

/// Writes an output of one partition and its index.
fn write_output(folder: &Path, length: usize) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("file.out"), vec![7; length]).unwrap();
    let mut index = Vec::new();
    for number in [0, length - 4, length] {
        index.extend((number as u64).to_be_bytes());
    }
    let checksum = u64::from(crc32fast::hash(&index));
    index.extend(checksum.to_be_bytes());
    fs::write(folder.join("file.out.index"), index).unwrap();
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn request(port: u16, map: &str) -> String {
    let target = format!("/mapOutput?job=job_1_0001&reduce=0&map={map}&keepAlive=true");
    let mut mac = Hmac::<Sha1>::new_from_slice(&SECRET).unwrap();
    mac.update(format!("{port}{target}").as_bytes());
    let hash = STANDARD.encode(mac.finalize().into_bytes());
    format!("GET {target} HTTP/1.1\r\nUrlHash: {hash}\r\nname: mapreduce\r\nversion: 1.0.0\r\n\r\n")
}

/// Fetches and drops one output.
fn fetch(stream: &mut TcpStream, request: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut bytes = vec![0; 64 * 1_024];
    let mut received = 0;
    let (mut body, head_end) = loop {
        received += stream.read(&mut bytes[received..]).unwrap();
        let head = &bytes[..received];
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break (received - end - 4, end);
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let length: usize = head.rsplit(' ').next().unwrap().parse().unwrap();
    if length > bytes.len() {
        bytes.resize(1 << 20, 0);
    }
    while body < length {
        body += stream.read(&mut bytes).unwrap();
    }
}

fn small_fetches(server: &RunningShuffle) {
    let mut stream = connect(server.port());
    let request = request(server.port(), "small");
    for _ in 0..FETCHES {
        fetch(&mut stream, &request);
    }
}

/// Does the work once for each reducer, all at once, and returns the seconds that it took.
fn on_each_reducer(work: impl Fn() + Sync) -> f64 {
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..REDUCERS {
            scope.spawn(&work);
        }
    });
    begin.elapsed().as_secs_f64()
}

/// Sends a file to whoever connects, by `sendfile` and a thread for each. Returns the port.
fn serve_plainly(path: &Path) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let path = path.to_owned();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, file) = (stream.unwrap(), File::open(&path).unwrap());
            thread::spawn(move || {
                let mut offset = 0;
                while sendfile(&stream, &file, Some(&mut offset), LARGE_BYTES).unwrap() > 0 {}
            });
        }
    });
    port
}
