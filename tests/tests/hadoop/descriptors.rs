//! Messages, enums and methods are those of the pinned Hadoop: name by name, number by number.
//!
//! Hadoop's side comes from the descriptors inside its generated classes, written out by a small
//! Java program.

use std::collections::BTreeMap;
use std::path::Path;

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto,
};
use tests::{java, require};
use wire::protocol::{
    Signature, application_client, application_master, container_management,
    distributed_scheduling_am, resource_tracker,
};

/// Classes whose files, with their imports, have everything that `wire` defines.
const OUTER_CLASSES: &[&str] = &[
    "org.apache.hadoop.ipc.protobuf.IpcConnectionContextProtos",
    "org.apache.hadoop.ipc.protobuf.ProtobufRpcEngine2Protos",
    "org.apache.hadoop.ipc.protobuf.RpcHeaderProtos",
    "org.apache.hadoop.security.proto.SecurityProtos",
    "org.apache.hadoop.yarn.proto.ApplicationClientProtocol",
    "org.apache.hadoop.yarn.proto.ApplicationMasterProtocol",
    "org.apache.hadoop.yarn.proto.ContainerManagementProtocol",
    "org.apache.hadoop.yarn.proto.DistributedSchedulingAMProtocol",
    "org.apache.hadoop.yarn.proto.ResourceTracker",
    "org.apache.hadoop.yarn.proto.YarnSecurityTokenProtos",
];

/// Number of messages at least: a comparison of fewer has lost some on the way.
const MESSAGES_MIN: usize = 202;
/// Number of enums at least.
const ENUMS_MIN: usize = 36;

/// Methods of Hadoop that are left out on purpose: the reservation system.
const METHODS_LEFT_OUT: &[&str] = &[
    "getNewReservation",
    "submitReservation",
    "updateReservation",
    "deleteReservation",
    "listReservations",
];

/// Messages, enums and services of a set, by full name.
#[derive(Clone, Default)]
struct Definitions {
    messages: BTreeMap<String, DescriptorProto>,
    enums: BTreeMap<String, EnumDescriptorProto>,
    services: BTreeMap<String, Vec<MethodDescriptorProto>>,
}

impl Definitions {
    fn of(set: FileDescriptorSet) -> Self {
        let mut definitions = Self::default();
        for file in set.file {
            let package = file.package().to_owned();
            for message in file.message_type {
                definitions.add_message(&package, message);
            }
            for described in file.enum_type {
                definitions.add_enum(&package, described);
            }
            for service in file.service {
                let name = format!("{package}.{}", service.name());
                definitions.services.insert(name, service.method);
            }
        }
        definitions
    }

    fn add_message(&mut self, scope: &str, message: DescriptorProto) {
        let name = format!("{scope}.{}", message.name());
        for nested in message.nested_type.clone() {
            self.add_message(&name, nested);
        }
        for nested in message.enum_type.clone() {
            self.add_enum(&name, nested);
        }
        let before = self.messages.insert(name.clone(), message);
        assert!(before.is_none(), "{name} is defined twice");
    }

    fn add_enum(&mut self, scope: &str, described: EnumDescriptorProto) {
        let name = format!("{scope}.{}", described.name());
        let before = self.enums.insert(name.clone(), described);
        assert!(before.is_none(), "{name} is defined twice");
    }
}

/// Properties of a field that decide its encoding.
fn describe(field: &FieldDescriptorProto) -> String {
    let packed = field
        .options
        .as_ref()
        .is_some_and(|options| options.packed());
    format!(
        "number {} label {:?} type {:?} {} default {:?} packed {packed}",
        field.number(),
        field.label(),
        field.r#type(),
        field.type_name(),
        field.default_value,
    )
}

/// Returns every difference between definitions of the same name. A definition that only `theirs`
/// has is no difference, except for fields and values: a message is there whole or not at all.
fn differences(ours: &Definitions, theirs: &Definitions) -> Vec<String> {
    let mut found = Vec::new();
    for (name, our) in &ours.messages {
        let Some(their) = theirs.messages.get(name) else {
            found.push(format!("Hadoop has no message {name}"));
            continue;
        };
        let fields = |message: &DescriptorProto| -> BTreeMap<_, _> {
            let fields = message.field.iter();
            fields
                .map(|field| (field.name().to_owned(), describe(field)))
                .collect()
        };
        compare(name, &fields(our), &fields(their), &mut found);
    }
    for (name, our) in &ours.enums {
        let Some(their) = theirs.enums.get(name) else {
            found.push(format!("Hadoop has no enum {name}"));
            continue;
        };
        let values = |described: &EnumDescriptorProto| -> BTreeMap<_, _> {
            let values = described.value.iter();
            values
                .map(|value| (value.name().to_owned(), value.number().to_string()))
                .collect()
        };
        compare(name, &values(our), &values(their), &mut found);
    }
    found
}

/// Compares the parts of one definition by their names.
fn compare(
    owner: &str,
    ours: &BTreeMap<String, String>,
    theirs: &BTreeMap<String, String>,
    found: &mut Vec<String>,
) {
    for (name, our) in ours {
        match theirs.get(name) {
            None => found.push(format!("Hadoop has no {owner}.{name}")),
            Some(their) if their != our => {
                found.push(format!("{owner}.{name} is {our}, Hadoop's is {their}"));
            }
            Some(_) => {}
        }
    }
    for name in theirs.keys().filter(|name| !ours.contains_key(*name)) {
        found.push(format!("{owner}.{name} of Hadoop is missing"));
    }
}

/// Returns every difference between the methods declared for a protocol and those of Hadoop's
/// service.
fn method_differences(
    service: &str,
    ours: &[Signature],
    theirs: &[MethodDescriptorProto],
) -> Vec<String> {
    // Rust spells `AM` as `Am`: the names are compared without regard to case.
    let spelt = |name: &str| name.rsplit('.').next().unwrap_or(name).to_lowercase();
    let theirs: BTreeMap<String, String> = theirs
        .iter()
        .filter(|method| !METHODS_LEFT_OUT.contains(&method.name()))
        .map(|method| {
            let types = (spelt(method.input_type()), spelt(method.output_type()));
            (
                method.name().to_owned(),
                format!("{} -> {}", types.0, types.1),
            )
        })
        .collect();
    let ours = ours
        .iter()
        .map(|method| {
            let types = (spelt(method.request), spelt(method.response));
            (
                method.method.to_owned(),
                format!("{} -> {}", types.0, types.1),
            )
        })
        .collect();
    let mut found = Vec::new();
    compare(service, &ours, &theirs, &mut found);
    found
}

/// Package of what agents tell each other, of which Hadoop knows nothing.
const OUR_PACKAGE: &str = "nm_agent";

fn ours() -> Definitions {
    let mut set = FileDescriptorSet::decode(wire::DESCRIPTORS).expect("our own descriptors decode");
    set.file.retain(|file| file.package() != OUR_PACKAGE);
    Definitions::of(set)
}

fn hadoops() -> Definitions {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("java/HadoopDescriptors.java");
    let output = java::source_command(&source)
        .args(OUTER_CLASSES)
        .output()
        .expect("a required Java runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Definitions::of(FileDescriptorSet::decode(&output.stdout[..]).expect("Java writes descriptors"))
}

#[test]
fn messages_enums_and_methods_are_those_of_the_pinned_hadoop() {
    require!(jdk, hadoop);
    let (ours, hadoops) = (ours(), hadoops());
    assert!(
        ours.messages.len() >= MESSAGES_MIN && ours.enums.len() >= ENUMS_MIN,
        "only {} messages and {} enums were compared",
        ours.messages.len(),
        ours.enums.len()
    );
    let mut found = differences(&ours, &hadoops);
    for (service, signatures) in [
        (
            "ApplicationClientProtocolService",
            application_client::SIGNATURES,
        ),
        (
            "ApplicationMasterProtocolService",
            application_master::SIGNATURES,
        ),
        (
            "ContainerManagementProtocolService",
            container_management::SIGNATURES,
        ),
        (
            "DistributedSchedulingAMProtocolService",
            distributed_scheduling_am::SIGNATURES,
        ),
        ("ResourceTrackerService", resource_tracker::SIGNATURES),
    ] {
        match hadoops.services.get(&format!("hadoop.yarn.{service}")) {
            Some(methods) => found.extend(method_differences(service, signatures, methods)),
            None => found.push(format!("Hadoop has no service {service}")),
        }
    }
    assert!(
        found.is_empty(),
        "{} differences:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// Applies `change` to one field of ours; returns the differences from the original.
fn differences_after(
    message: &str,
    field: &str,
    change: impl FnOnce(&mut FieldDescriptorProto),
) -> Vec<String> {
    let original = ours();
    let mut changed = original.clone();
    let message = changed
        .messages
        .get_mut(message)
        .expect("a message of ours");
    let field = message
        .field
        .iter_mut()
        .find(|candidate| candidate.name() == field);
    change(field.expect("a field of ours"));
    differences(&changed, &original)
}

#[test]
fn a_field_that_differs_in_anything_that_matters_is_found() {
    const MESSAGE: &str = "hadoop.yarn.ContainerProto";
    const FIELD: &str = "execution_type";
    let changes: [fn(&mut FieldDescriptorProto); 5] = [
        |field| field.number = Some(99),
        |field| field.set_label(prost_types::field_descriptor_proto::Label::Required),
        |field| field.set_type(prost_types::field_descriptor_proto::Type::Int32),
        |field| field.type_name = Some(".hadoop.yarn.ContainerTypeProto".to_owned()),
        |field| field.default_value = None,
    ];
    for change in changes {
        let found = differences_after(MESSAGE, FIELD, change);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("hadoop.yarn.ContainerProto.execution_type is "));
    }
    // A renamed field is missing under one name and unknown under the other.
    let found = differences_after(MESSAGE, FIELD, |field| field.name = Some("kind".to_owned()));
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_missing_message_and_a_changed_enum_value_are_found() {
    let original = ours();
    let mut theirs = original.clone();
    theirs.messages.remove("hadoop.yarn.NodeIdProto");
    let state = theirs
        .enums
        .get_mut("hadoop.yarn.ContainerStateProto")
        .unwrap();
    state.value[0].number = Some(7);
    let found = differences(&original, &theirs);
    assert_eq!(
        found,
        [
            "Hadoop has no message hadoop.yarn.NodeIdProto",
            "hadoop.yarn.ContainerStateProto.C_NEW is 1, Hadoop's is 7",
        ]
    );
}

#[test]
fn a_method_with_another_answer_is_found() {
    let theirs = [MethodDescriptorProto {
        name: Some("allocate".to_owned()),
        input_type: Some(".hadoop.yarn.AllocateRequestProto".to_owned()),
        output_type: Some(".hadoop.yarn.AllocateResponseProto".to_owned()),
        ..MethodDescriptorProto::default()
    }];
    let good = Signature {
        method: "allocate",
        request: "AllocateRequestProto",
        response: "AllocateResponseProto",
    };
    assert_eq!(method_differences("S", &[good], &theirs), [""; 0]);
    let bad = Signature {
        response: "AllocateRequestProto",
        ..good
    };
    assert_eq!(method_differences("S", &[bad], &theirs).len(), 1);
    assert_eq!(method_differences("S", &[], &theirs).len(), 1);
}
