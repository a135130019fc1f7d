//! Remote errors: Hadoop's exception classes by name, and the answer that carries one.
//!
//! Clients decide by the class name whether to retry, so [`HadoopException`] is the only place
//! where these names are written. A class that is not in the table is passed on:
//! [`RemoteException`] keeps the name that the peer sent.

use std::fmt;

use crate::proto::hadoop_common::rpc_response_header_proto::RpcErrorCodeProto;

/// The class of a failed call, as the peer reports it (`RpcErrorCodeProto`).
///
/// The `Fatal…` codes end the connection; the others only fail the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcErrorCode {
    /// The method ran and threw.
    Application,
    /// The protocol is hosted and has no such method.
    NoSuchMethod,
    /// The port does not host the protocol.
    NoSuchProtocol,
    /// The server failed outside the method.
    RpcServer,
    /// The answer could not be serialised.
    SerializingResponse,
    /// The server has another version of the protocol.
    RpcVersionMismatch,
    /// Fatal, without a reason from the server.
    FatalUnknown,
    /// Fatal: the server does not support the request's serialisation.
    FatalUnsupportedSerialization,
    /// Fatal: a header that is malformed or not allowed at this point.
    FatalInvalidRpcHeader,
    /// Fatal: a request that does not parse.
    FatalDeserializingRequest,
    /// Fatal: the version of Hadoop's IPC differs.
    FatalVersionMismatch,
    /// Fatal: authentication or authorization failed.
    FatalUnauthorized,
}

impl RpcErrorCode {
    /// Returns whether the connection ends with this error.
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        match self {
            Self::Application
            | Self::NoSuchMethod
            | Self::NoSuchProtocol
            | Self::RpcServer
            | Self::SerializingResponse
            | Self::RpcVersionMismatch => false,
            Self::FatalUnknown
            | Self::FatalUnsupportedSerialization
            | Self::FatalInvalidRpcHeader
            | Self::FatalDeserializingRequest
            | Self::FatalVersionMismatch
            | Self::FatalUnauthorized => true,
        }
    }
}

impl From<RpcErrorCode> for RpcErrorCodeProto {
    fn from(code: RpcErrorCode) -> Self {
        match code {
            RpcErrorCode::Application => Self::ErrorApplication,
            RpcErrorCode::NoSuchMethod => Self::ErrorNoSuchMethod,
            RpcErrorCode::NoSuchProtocol => Self::ErrorNoSuchProtocol,
            RpcErrorCode::RpcServer => Self::ErrorRpcServer,
            RpcErrorCode::SerializingResponse => Self::ErrorSerializingResponse,
            RpcErrorCode::RpcVersionMismatch => Self::ErrorRpcVersionMismatch,
            RpcErrorCode::FatalUnknown => Self::FatalUnknown,
            RpcErrorCode::FatalUnsupportedSerialization => Self::FatalUnsupportedSerialization,
            RpcErrorCode::FatalInvalidRpcHeader => Self::FatalInvalidRpcHeader,
            RpcErrorCode::FatalDeserializingRequest => Self::FatalDeserializingRequest,
            RpcErrorCode::FatalVersionMismatch => Self::FatalVersionMismatch,
            RpcErrorCode::FatalUnauthorized => Self::FatalUnauthorized,
        }
    }
}

impl From<RpcErrorCodeProto> for RpcErrorCode {
    fn from(code: RpcErrorCodeProto) -> Self {
        match code {
            RpcErrorCodeProto::ErrorApplication => Self::Application,
            RpcErrorCodeProto::ErrorNoSuchMethod => Self::NoSuchMethod,
            RpcErrorCodeProto::ErrorNoSuchProtocol => Self::NoSuchProtocol,
            RpcErrorCodeProto::ErrorRpcServer => Self::RpcServer,
            RpcErrorCodeProto::ErrorSerializingResponse => Self::SerializingResponse,
            RpcErrorCodeProto::ErrorRpcVersionMismatch => Self::RpcVersionMismatch,
            RpcErrorCodeProto::FatalUnknown => Self::FatalUnknown,
            RpcErrorCodeProto::FatalUnsupportedSerialization => Self::FatalUnsupportedSerialization,
            RpcErrorCodeProto::FatalInvalidRpcHeader => Self::FatalInvalidRpcHeader,
            RpcErrorCodeProto::FatalDeserializingRequest => Self::FatalDeserializingRequest,
            RpcErrorCodeProto::FatalVersionMismatch => Self::FatalVersionMismatch,
            RpcErrorCodeProto::FatalUnauthorized => Self::FatalUnauthorized,
        }
    }
}

/// Defines the enum and its table from one list, so that they cannot disagree.
macro_rules! hadoop_exceptions {
    ($($(#[$doc:meta])* $variant:ident = $class:literal => $code:ident,)+) => {
        /// A Hadoop exception class that this project throws or handles.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum HadoopException {
            $($(#[$doc])* $variant,)+
        }

        impl HadoopException {
            /// Every exception of the table, in its order.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Returns the Java class name as sent.
            #[must_use]
            pub const fn as_class_name(self) -> &'static str {
                match self { $(Self::$variant => $class,)+ }
            }

            /// Returns the code that a Hadoop server sends with this class when a call fails with
            /// it.
            #[must_use]
            pub const fn default_code(self) -> RpcErrorCode {
                match self { $(Self::$variant => RpcErrorCode::$code,)+ }
            }
        }
    };
}

hadoop_exceptions! {
    /// The general refusal of YARN; final for every Java client.
    YarnException = "org.apache.hadoop.yarn.exceptions.YarnException" => Application,
    /// The container's token is of another registration, or the container is unknown.
    InvalidContainer = "org.apache.hadoop.yarn.exceptions.InvalidContainerException" => Application,
    /// Service data names an auxiliary service that the node does not run.
    InvalidAuxService = "org.apache.hadoop.yarn.exceptions.InvalidAuxServiceException" => Application,
    /// The node has not registered yet; a Java ApplicationMaster retries.
    NmNotYetReady = "org.apache.hadoop.yarn.exceptions.NMNotYetReadyException" => Application,
    /// `allocate` or `finish` before `registerApplicationMaster`.
    ApplicationMasterNotRegistered =
        "org.apache.hadoop.yarn.exceptions.ApplicationMasterNotRegisteredException" => Application,
    /// A second registration, or a response id out of order.
    InvalidApplicationMasterRequest =
        "org.apache.hadoop.yarn.exceptions.InvalidApplicationMasterRequestException" => Application,
    /// An ask that no node could ever satisfy.
    InvalidResourceRequest = "org.apache.hadoop.yarn.exceptions.InvalidResourceRequestException" => Application,
    /// A blacklist that names the wildcard host ("any").
    InvalidResourceBlacklistRequest =
        "org.apache.hadoop.yarn.exceptions.InvalidResourceBlacklistRequestException" => Application,
    /// A release of a container of another attempt.
    InvalidContainerRelease = "org.apache.hadoop.yarn.exceptions.InvalidContainerReleaseException" => Application,
    /// An unknown attempt, for example after a restart of the ResourceManager.
    ApplicationAttemptNotFound =
        "org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException" => Application,
    /// An unknown application.
    ApplicationNotFound = "org.apache.hadoop.yarn.exceptions.ApplicationNotFoundException" => Application,
    /// A submission without an application id.
    ApplicationIdNotProvided =
        "org.apache.hadoop.yarn.exceptions.ApplicationIdNotProvidedException" => Application,
    /// An unknown container.
    ContainerNotFound = "org.apache.hadoop.yarn.exceptions.ContainerNotFoundException" => Application,
    /// A configuration value that cannot be used.
    Configuration = "org.apache.hadoop.yarn.exceptions.ConfigurationException" => Application,
    /// A feature that exists and is turned off.
    YarnFeatureNotEnabled =
        "org.apache.hadoop.yarn.exceptions.YARNFeatureNotEnabledException" => Application,
    /// YARN's unchecked exception.
    YarnRuntime = "org.apache.hadoop.yarn.exceptions.YarnRuntimeException" => Application,
    /// The server cannot answer now; the client tries again.
    Retriable = "org.apache.hadoop.ipc.RetriableException" => Application,
    /// The server is a standby; the client tries the other one.
    Standby = "org.apache.hadoop.ipc.StandbyException" => Application,
    /// A call that the caller is not permitted to make.
    AccessControl = "org.apache.hadoop.security.AccessControlException" => Application,
    /// An administrator's refusal of a user for a protocol.
    Authorization = "org.apache.hadoop.security.authorize.AuthorizationException" => Application,
    /// A token that is forged, too old, or meant for another server. The Java class is nested,
    /// hence the `$`.
    InvalidToken = "org.apache.hadoop.security.token.SecretManager$InvalidToken" => Application,
    /// The digest does not match or a SASL message is broken.
    Sasl = "javax.security.sasl.SaslException" => FatalUnauthorized,
    /// The port does not host the protocol.
    NoSuchProtocol = "org.apache.hadoop.ipc.RpcNoSuchProtocolException" => NoSuchProtocol,
    /// The protocol has no such method.
    NoSuchMethod = "org.apache.hadoop.ipc.RpcNoSuchMethodException" => NoSuchMethod,
    /// Another version of the protocol, or of IPC.
    VersionMismatch = "org.apache.hadoop.ipc.RPC$VersionMismatch" => RpcVersionMismatch,
    /// The server's own failure, or a breach of the IPC protocol by the client.
    RpcServer = "org.apache.hadoop.ipc.RpcServerException" => RpcServer,
    /// A preamble that the server does not understand.
    Ipc = "org.apache.hadoop.ipc.IpcException" => RpcServer,
    /// A header or request message that does not parse.
    InvalidProtocolBuffer =
        "org.apache.hadoop.thirdparty.protobuf.InvalidProtocolBufferException" => Application,
    /// An I/O failure. Java ApplicationMasters take this exact class for a network fault and retry
    /// for minutes: a deliberate refusal must not use it.
    Io = "java.io.IOException" => Application,
    /// A missing file; unlike other I/O failures it is not retried.
    FileNotFound = "java.io.FileNotFoundException" => Application,
    /// An invalid argument.
    IllegalArgument = "java.lang.IllegalArgumentException" => Application,
    /// A call that is not allowed in the callee's state.
    IllegalState = "java.lang.IllegalStateException" => Application,
    /// A dereference of null inside a Java peer.
    NullPointer = "java.lang.NullPointerException" => Application,
    /// A call that the server does not implement.
    UnsupportedOperation = "java.lang.UnsupportedOperationException" => Application,
}

impl fmt::Display for HadoopException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_class_name())
    }
}

/// A failure reported by the other side of a connection (`org.apache.hadoop.ipc.RemoteException`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{class_name}: {}", first_line(message))]
pub struct RemoteException {
    /// Java class name; possibly one that is not in [`HadoopException`].
    pub class_name: String,
    /// Message text. A Java peer appends its stack, a line per frame.
    pub message: String,
    /// Class of the failure; decides whether the connection ends.
    pub code: RpcErrorCode,
}

impl RemoteException {
    /// Makes a failure of a class from the table, with the code that Hadoop sends for it.
    pub fn new(exception: HadoopException, message: impl Into<String>) -> Self {
        Self::with_code(exception, message, exception.default_code())
    }

    /// Makes a failure of a class from the table, with another code.
    pub fn with_code(
        exception: HadoopException,
        message: impl Into<String>,
        code: RpcErrorCode,
    ) -> Self {
        Self {
            class_name: exception.as_class_name().to_owned(),
            message: message.into(),
            code,
        }
    }

    /// Returns whether the failure is of this class.
    #[must_use]
    pub fn is(&self, exception: HadoopException) -> bool {
        self.class_name == exception.as_class_name()
    }
}

/// Returns a Java message without its stack.
fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn class_names_are_distinct() {
        let names: BTreeSet<_> = HadoopException::ALL
            .iter()
            .map(|exception| exception.as_class_name())
            .collect();
        assert_eq!(names.len(), HadoopException::ALL.len());
    }

    #[test]
    fn unknown_class_is_kept_by_its_name() {
        let error = RemoteException {
            class_name: "com.example.Odd".to_owned(),
            message: "why\n\tat com.example.Main".to_owned(),
            code: RpcErrorCode::Application,
        };
        assert_eq!(error.to_string(), "com.example.Odd: why");
    }

    #[test]
    fn codes_survive_the_wire() {
        for number in 0..=20 {
            if let Ok(proto) = RpcErrorCodeProto::try_from(number) {
                let code = RpcErrorCode::from(proto);
                assert_eq!(RpcErrorCodeProto::from(code), proto);
                assert_eq!(code.is_fatal(), number >= 10);
            }
        }
    }
}
