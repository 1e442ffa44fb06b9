//! Elements by what a reader sees of them.

use quick_xml::events::BytesStart;

/// Elements whose texts are not shown in the body.
const UNSEEN: [&str; 29] = [
    "alphabetical-index-source",
    "annotation",
    "automatic-styles",
    "bibliography-source",
    "binary-data",
    "calculation-settings",
    "content-validations",
    "date-time-decl",
    "dde-connection-decls",
    "event-listeners",
    "font-face-decls",
    "footer-decl",
    "header-decl",
    "illustration-index-source",
    "master-styles",
    "meta",
    "named-expressions",
    "note-citation",
    "object-index-source",
    "page-thumbnail",
    "script",
    "scripts",
    "sequence-decls",
    "settings",
    "styles",
    "table-index-source",
    "table-of-content-source",
    "user-field-decls",
    "variable-decls",
];

/// The shapes of a drawing, which may have text.
const SHAPES: [&str; 13] = [
    "frame",
    "custom-shape",
    "rect",
    "ellipse",
    "circle",
    "line",
    "polyline",
    "polygon",
    "regular-polygon",
    "path",
    "connector",
    "measure",
    "caption",
];

/// Returns true for an element whose texts are not shown in the body.
pub fn is_unseen(element: &BytesStart) -> bool {
    // Text with data of programs has the name of the properties.
    let is_text = element.name().into_inner() == "text:meta";
    UNSEEN.contains(&element.local_name().into_inner()) && !is_text
}

pub fn is_shape(name: &str) -> bool {
    SHAPES.contains(&name)
}

/// Other titles are fields.
pub fn is_svg(element: &BytesStart) -> bool {
    element.name().into_inner().starts_with("svg:")
}
