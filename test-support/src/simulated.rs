//! Nodes and ApplicationMasters without processes, many in one program: they follow the rules of
//! real ones and speak Hadoop's protocols on connections of their own.

mod am;
mod node;

pub use self::am::SimulatedAm;
pub use self::node::SimulatedNode;
