//! Makes what was typed into the fields of a form, and notes that are shown on a page, a part of
//! its text.
//!
//! A page is flattened: PDFium draws fields and notes onto it as a viewer shows them, in their
//! places. A field without a drawing, which a viewer would make, gives its value.
#![allow(unsafe_code)]

use std::os::raw::c_int;

use pdfium_render::prelude::{FPDF_ANNOTATION, FPDF_PAGE, FPDF_WCHAR, FS_RECTF};

use super::{Document, Glyph, filled, pictures::glyphs_of_picture};

// Values from fpdf_annot.h and fpdf_flatten.h.
const FREE_TEXT: c_int = 3;
const STAMP: c_int = 13;
const WIDGET: c_int = 20;
const NORMAL: c_int = 0;
const HIDDEN: c_int = 1 << 1;
const NO_VIEW: c_int = 1 << 5;
const NORMAL_DISPLAY: c_int = 0;
/// Maximum number of fields and notes of a page that are read.
const MAX_FIELDS: c_int = 10_000;

/// A page with its fields and notes.
pub struct Filled {
    /// Null if it was closed and cannot be loaded again.
    pub page: FPDF_PAGE,
    /// The values of fields that are not drawn.
    pub typed: Vec<Glyph>,
}

/// The fields and notes of a page.
#[derive(Default)]
struct Fields {
    /// Some are drawn by the file.
    are_drawn: bool,
    /// The values of the others.
    typed: Vec<Glyph>,
}

impl Document<'_> {
    /// Draws the fields and notes of a page onto it. The page is closed if it is loaded again.
    pub(super) fn filled(&self, page: FPDF_PAGE, index: c_int) -> Filled {
        let Fields { are_drawn, typed } = self.fields(page);
        if !are_drawn {
            return Filled { page, typed };
        }
        // SAFETY: an open page, of which nothing is used after this but by the new handle.
        let page = unsafe {
            self.pdfium.FPDFPage_Flatten(page, NORMAL_DISPLAY);
            self.pdfium.FPDF_ClosePage(page);
            self.pdfium.FPDF_LoadPage(self.handle, index)
        };
        Filled { page, typed }
    }

    fn fields(&self, page: FPDF_PAGE) -> Fields {
        let mut fields = Fields::default();
        // SAFETY: an open page.
        let count = unsafe { self.pdfium.FPDFPage_GetAnnotCount(page) };
        for index in 0..count.min(MAX_FIELDS) {
            // SAFETY: an open page, and an index that is in it. The annotation is closed below.
            let annotation = unsafe { self.pdfium.FPDFPage_GetAnnot(page, index) };
            if annotation.is_null() {
                continue;
            }
            self.read_field(annotation, &mut fields);
            // SAFETY: nothing of the annotation is used after this.
            unsafe { self.pdfium.FPDFPage_CloseAnnot(annotation) };
        }
        fields
    }

    fn read_field(&self, annotation: FPDF_ANNOTATION, fields: &mut Fields) {
        let mut area = FS_RECTF {
            left: 0.0,
            top: 0.0,
            right: 0.0,
            bottom: 0.0,
        };
        // SAFETY: an open annotation, and a valid place for the result.
        let (subtype, flags, has_area) = unsafe {
            (
                self.pdfium.FPDFAnnot_GetSubtype(annotation),
                self.pdfium.FPDFAnnot_GetFlags(annotation),
                self.pdfium.FPDFAnnot_GetRect(annotation, &raw mut area) != 0,
            )
        };
        let key = match subtype {
            WIDGET => "V",
            FREE_TEXT => "Contents",
            STAMP => "",
            _ => return,
        };
        if flags & (HIDDEN | NO_VIEW) != 0 {
            return;
        }
        // SAFETY: the buffer has the size that is passed; without a buffer the functions return the
        // size.
        let drawing = filled(|buffer: *mut FPDF_WCHAR, bytes| unsafe {
            self.pdfium
                .FPDFAnnot_GetAP(annotation, NORMAL, buffer, bytes)
        });
        if drawing.len() > 1 {
            fields.are_drawn = true;
        } else if has_area && !key.is_empty() {
            let value = filled(|buffer: *mut FPDF_WCHAR, bytes| unsafe {
                self.pdfium
                    .FPDFAnnot_GetStringValue(annotation, key, buffer, bytes)
            });
            let value = String::from_utf16_lossy(value.strip_suffix(&[0]).unwrap_or(&value));
            // Objects of a page have small numbers.
            let object = usize::MAX - fields.typed.len();
            fields
                .typed
                .extend(glyphs_of_picture(&value, &area, object));
        }
    }
}
