//! Cost of the loopback address of this machine: the lower bound of any call.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use crate::samples::Samples;

/// Sends one byte to an echo in another thread and back, `count` times.
///
/// # Panics
/// When there is no loopback address.
#[must_use]
pub fn round_trips(count: usize) -> Samples {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let echo = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        stream.set_nodelay(true).expect("a new connection is good");
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            stream.write_all(&byte).expect("the client waits for it");
        }
    });
    let mut stream = TcpStream::connect(address).expect("the echo listens");
    stream.set_nodelay(true).expect("a new connection is good");
    let samples = Samples::take(count, |_| {
        let begin = Instant::now();
        let mut byte = [1];
        stream.write_all(&byte).expect("the echo reads");
        stream.read_exact(&mut byte).expect("the echo answers");
        begin.elapsed()
    });
    drop(stream);
    echo.join().expect("the echo does not panic");
    samples
}
