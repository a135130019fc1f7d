//! A configuration file with Hadoop's rules.

use std::collections::BTreeMap;
use std::fs;

use hadoop_conf::site_xml::{Environment, Properties};

use crate::{Memory, Target};

pub(crate) const TARGET: Target = Target {
    name: "site_xml",
    bytes_max: 8 * 1024,
    // A value may expand to more than its text, within Hadoop's limits, which the reader has too.
    memory: Memory {
        base: 32 << 20,
        per_byte: 256,
    },
    run,
    seeds,
};

/// Values by name; `None` for one that cannot be expanded.
type Values = BTreeMap<String, Option<String>>;

fn run(input: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("site.xml");
    fs::write(&path, input).expect("the file is written");
    let read = || {
        let variables = BTreeMap::from([("HOME".to_owned(), "/home/alice".to_owned())]);
        let mut properties = Properties::new(Environment::new(&variables));
        let read = properties.add_file(&[folder.path().to_owned()], "site.xml");
        let names: Vec<String> = properties.names().map(str::to_owned).collect();
        let values = names.into_iter().map(|name| {
            let value = properties.get(&name).ok().flatten();
            (name, value.map(|value| value.text))
        });
        let error = read.err().map(|error| error.to_string());
        (values.collect::<Values>(), error)
    };
    let (values, error) = read();
    if let Some(error) = error {
        assert!(
            error.len() < 1024 + 4 * input.len(),
            "a long message: {error}"
        );
    }
    // Expanding is a function of the file.
    assert!(read().0 == values, "two readings differ");
}

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "<?xml version=\"1.0\"?><?xml-stylesheet type=\"text/xsl\" href=\"c.xsl\"?>\n\
         <configuration xmlns:xi=\"http://www.w3.org/2001/XInclude\">\n\
         <!-- a comment --><property><name>a</name><value>${b} &lt;1&#62;</value>\
         <final>true</final><description>d</description></property>\n\
         <property><name>b</name><value>${env.HOME:-none}/${c}</value></property>\n\
         <property name=\"c\" value=\"${user.home}\"/>\n\
         <xi:include href=\"none.xml\"><xi:fallback><property><name>d</name>\
         <value><![CDATA[x]]></value></property></xi:fallback></xi:include>\n\
         </configuration>",
        "<configuration><property><name>a</name><value>${a}${b}</value></property>\
         <property><name>b</name><value>${c}${c}</value></property>\
         <property><name>c</name><value>${a}</value></property></configuration>",
        "<configuration><xi:include href=\"site.xml\"/></configuration>",
    ];
    texts
        .into_iter()
        .map(|text| text.as_bytes().to_vec())
        .collect()
}
