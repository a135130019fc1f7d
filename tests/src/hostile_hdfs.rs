//! A NameNode and a DataNode whose answers the test chose: honest until a moment, then a lie about
//! a length, garbage, silence, or the end of the connection.
//!
//! The honest part is a file of 64 KiB of zeros in one block, which is a tar without entries, too:
//! what a client asks for that wants to read it.
//! Messages are written field by field, by no library for HDFS.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use prost::Message;
use wire::proto::hadoop_common::{
    RequestHeaderProto, RpcRequestHeaderProto, RpcResponseHeaderProto,
};

/// Modification time of the file, in milliseconds since 1970.
pub const MODIFIED_MS: i64 = 1_700_000_000_000;

/// Bytes of the file.
const LENGTH: u64 = 64 * 1024;

/// Empty blocks that fit into a message of 4 MB.
const EMPTY_BLOCKS: usize = 2_000_000;

/// Step of a client's way to the content of a file, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The connection to the NameNode.
    NameNode,
    /// The call for the status of the file.
    Status,
    /// The call for the blocks of the file.
    Blocks,
    /// The connection to the DataNode.
    DataNode,
    /// The answer to the order to read.
    Answer,
    /// The first packet of content.
    Packet,
}

/// Lie that the servers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Nothing: the file can be read.
    None,
    /// A message whose stated length is 2^40, or as much as its field holds.
    Length,
    /// A packet whose stated length is -1.
    NegativeLength,
    /// Two million blocks without content.
    EmptyBlocks,
    /// Bytes that are no message.
    Garbage,
    /// No answer, on an open connection.
    Silence,
    /// The end of the connection.
    End,
    /// The end of the connection in the middle of a message.
    HalfMessage,
}

/// Both servers, on ports of their own. They go on until the test process ends.
#[derive(Clone, Debug)]
pub struct HostileHdfs {
    port: u16,
    data_port: u16,
    lie: Arc<Mutex<(Moment, Lie)>>,
}

impl HostileHdfs {
    /// Starts both.
    ///
    /// # Panics
    /// When a port cannot be had.
    #[must_use]
    pub fn start(moment: Moment, lie: Lie) -> Self {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let (names, data) = (listen(), listen());
        let port = |listener: &TcpListener| listener.local_addr().expect("it listens").port();
        let hdfs = Self {
            port: port(&names),
            data_port: port(&data),
            lie: Arc::new(Mutex::new((moment, lie))),
        };
        serve(names, hdfs.clone(), Self::serve_names);
        serve(data, hdfs.clone(), Self::serve_data);
        hdfs
    }

    /// Returns the port of the NameNode.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lies in another way from now on.
    pub fn lie_again(&self, moment: Moment, lie: Lie) {
        *self.lie.lock().unwrap_or_else(PoisonError::into_inner) = (moment, lie);
    }

    /// Returns the lie that is due at a moment.
    fn lie_at(&self, moment: Moment) -> Lie {
        let (when, lie) = *self.lie.lock().unwrap_or_else(PoisonError::into_inner);
        if when == moment { lie } else { Lie::None }
    }

    fn serve_names(&self, stream: &mut TcpStream) -> io::Result<()> {
        self.tell(Moment::NameNode, stream, Vec::new())?;
        stream.read_exact(&mut [0; 7])?;
        loop {
            let mut length = [0; 4];
            stream.read_exact(&mut length)?;
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut frame)?;
            let mut frame = frame.as_slice();
            let header = RpcRequestHeaderProto::decode_length_delimited(&mut frame)?;
            if header.call_id < 0 {
                continue;
            }
            let method = RequestHeaderProto::decode_length_delimited(&mut frame)?.method_name;
            let (moment, answer) = match method.as_str() {
                "getFileInfo" => (Moment::Status, field(1, &status())),
                "getBlockLocations" => {
                    let is_full = self.lie_at(Moment::Blocks) == Lie::EmptyBlocks;
                    let blocks = if is_full {
                        // Tag of a block, and a length of 0.
                        [0x12, 0].repeat(EMPTY_BLOCKS)
                    } else {
                        self.blocks()
                    };
                    (Moment::Blocks, field(1, &blocks))
                }
                _ => (Moment::NameNode, field(1, &defaults())),
            };
            let header = RpcResponseHeaderProto {
                call_id: header.call_id.cast_unsigned(),
                ..RpcResponseHeaderProto::default()
            };
            let body = [header.encode_length_delimited_to_vec(), delimited(&answer)].concat();
            let length = u32::try_from(body.len()).expect("an answer is short");
            let message = [&length.to_be_bytes(), body.as_slice()].concat();
            self.tell(moment, stream, message)?;
        }
    }

    fn serve_data(&self, stream: &mut TcpStream) -> io::Result<()> {
        self.tell(Moment::DataNode, stream, Vec::new())?;
        // Version, operation, and the length of the order, which is short.
        let mut begin = [0; 3];
        stream.read_exact(&mut begin)?;
        let order = varint_of(stream)?;
        stream.read_exact(&mut vec![
            0;
            usize::try_from(order).map_err(io::Error::other)?
        ])?;
        // Success, with content of which there are no checksums.
        let checksum = field(1, &[number(1, 0), number(2, 512)].concat());
        let answer = [number(1, 0), field(4, &[checksum, number(2, 0)].concat())].concat();
        self.tell(Moment::Answer, stream, delimited(&answer))?;
        for (content, is_last) in [(vec![0; 64 * 1024], false), (Vec::new(), true)] {
            let length = u32::try_from(content.len()).expect("a packet is short");
            let header = [
                fixed(1, &0_u64.to_le_bytes()),
                fixed(2, &0_u64.to_le_bytes()),
                number(3, u64::from(is_last)),
                fixed(4, &length.to_le_bytes()),
            ]
            .concat();
            let header_length = u16::try_from(header.len()).expect("a header is short");
            let packet = [
                &(length + 4).to_be_bytes(),
                header_length.to_be_bytes().as_slice(),
                &header,
                &content,
            ]
            .concat();
            self.tell(Moment::Packet, stream, packet)?;
        }
        stream.read_exact(&mut [0])
    }

    /// Sends a message, or the lie of its moment.
    fn tell(&self, moment: Moment, stream: &mut TcpStream, message: Vec<u8>) -> io::Result<()> {
        let is_of_data = moment >= Moment::Answer;
        let sent = match self.lie_at(moment) {
            Lie::None | Lie::EmptyBlocks => return stream.write_all(&message),
            Lie::Length if moment == Moment::Answer => varint(1 << 40),
            // Behind the length of a packet stands that of its header.
            Lie::Length => [0x7fff_ffff_u32.to_be_bytes().as_slice(), &[0, 0]].concat(),
            Lie::NegativeLength => [u32::MAX.to_be_bytes().as_slice(), &[0, 0]].concat(),
            Lie::Garbage => {
                let numbers = (0..100_000_u32).map(|number| number.wrapping_mul(2_654_435_761));
                numbers.flat_map(u32::to_be_bytes).collect()
            }
            Lie::Silence => Vec::new(),
            Lie::End => return Err(io::ErrorKind::ConnectionAborted.into()),
            Lie::HalfMessage => {
                let half = if is_of_data { 3 } else { message.len() / 2 };
                stream.write_all(message.get(..half).unwrap_or_default())?;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        };
        stream.write_all(&sent)?;
        // Until the client goes.
        io::copy(stream, &mut io::sink())?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    fn blocks(&self) -> Vec<u8> {
        let id = [
            field(1, b"127.0.0.1"),
            field(2, b"127.0.0.1"),
            field(3, b"uuid"),
            number(4, self.data_port.into()),
            number(5, 1),
            number(6, 1),
        ]
        .concat();
        let extended = [
            field(1, b"pool"),
            number(2, 1),
            number(3, 1),
            number(4, LENGTH),
        ]
        .concat();
        let token = [field(1, b""), field(2, b""), field(3, b""), field(4, b"")].concat();
        let block = [
            field(1, &extended),
            number(2, 0),
            field(3, &field(1, &id)),
            number(4, 0),
            field(5, &token),
        ]
        .concat();
        [
            number(1, LENGTH),
            field(2, &block),
            number(3, 0),
            number(5, 1),
        ]
        .concat()
    }
}

fn serve(
    listener: TcpListener,
    hdfs: HostileHdfs,
    answer: fn(&HostileHdfs, &mut TcpStream) -> io::Result<()>,
) {
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let hdfs = hdfs.clone();
            // The client goes, or the lie ends the connection.
            thread::spawn(move || drop(answer(&hdfs, &mut stream)));
        }
    });
}

/// Status of the file, which everybody may read.
fn status() -> Vec<u8> {
    let modified = MODIFIED_MS.cast_unsigned();
    [
        number(1, 2),
        field(2, b""),
        number(3, LENGTH),
        field(4, &number(1, 0o755)),
        field(5, b"joe"),
        field(6, b"joe"),
        number(7, modified),
        number(8, modified),
    ]
    .concat()
}

fn defaults() -> Vec<u8> {
    (1..=5).flat_map(|tag| number(tag, 512)).collect()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            bytes.push(low & 0x7f);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

fn varint_of(stream: &mut TcpStream) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            break;
        }
    }
    Ok(value)
}

fn delimited(message: &[u8]) -> Vec<u8> {
    [varint(message.len() as u64).as_slice(), message].concat()
}

/// Returns a field that is a number.
fn number(tag: u64, value: u64) -> Vec<u8> {
    [varint(tag << 3), varint(value)].concat()
}

/// Returns a field that is a message, a text or bytes.
fn field(tag: u64, content: &[u8]) -> Vec<u8> {
    [varint(tag << 3 | 2), delimited(content)].concat()
}

/// Returns a field of four or eight bytes.
fn fixed(tag: u64, content: &[u8]) -> Vec<u8> {
    let kind = if content.len() == 8 { 1 } else { 5 };
    [varint(tag << 3 | kind).as_slice(), content].concat()
}
