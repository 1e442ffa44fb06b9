//! What a page shows beside its text.
#![allow(unsafe_code)]

use std::{
    collections::HashSet,
    os::raw::{c_int, c_ulong},
};

use pdfium_render::prelude::{
    FPDF_PAGE, FPDF_PAGEOBJ_IMAGE, FPDF_PAGEOBJ_TEXT, FPDF_PAGEOBJECT, FS_RECTF,
};

use super::{
    super::{
        layout::{Frame, Glyph},
        pages::Drawn,
    },
    Document, decoded, filled, shows,
};

/// The share of a page from which an image covers it.
const COVER: f32 = 0.8;

pub(super) struct Pictures {
    /// The texts that pictures stand for.
    pub texts: Vec<Glyph>,
    pub drawn: Drawn,
}

impl Drawn {
    /// Adds an object of a page. `share` is the share of the page that it takes.
    fn add(&mut self, kind: c_int, share: impl FnOnce() -> f32) {
        if kind == FPDF_PAGEOBJ_IMAGE as c_int {
            self.has_image = true;
            self.is_covered |= share() >= COVER;
        } else if kind != FPDF_PAGEOBJ_TEXT as c_int {
            self.has_lines = true;
        }
    }
}

impl Document<'_> {
    /// Examines the objects that gave no characters: finds pictures, and text that pictures stand
    /// for (ActualText). PDFium handles ActualText of text objects, but not that of emojis.
    pub(super) fn pictures(
        &self,
        page: FPDF_PAGE,
        visible: Option<FS_RECTF>,
        glyphs: &[Glyph],
    ) -> Pictures {
        let mut pictures = Pictures {
            texts: vec![],
            drawn: Drawn::default(),
        };
        let read: HashSet<usize> = glyphs.iter().map(|glyph| glyph.object).collect();
        let is_free = |area: &FS_RECTF| {
            let within = |at: &Frame| at.angle == 0 && shows(area, at.u, at.v);
            visible.is_none_or(|bounds| shows(&bounds, area.left, area.bottom))
                && !glyphs.iter().any(|glyph| within(&glyph.frame))
        };
        // SAFETY: an open page.
        let count = unsafe { self.pdfium.FPDFPage_CountObjects(page) };
        let mut before = String::new();
        for index in 0..count {
            // SAFETY: an open page and an index that is in it; null is checked below.
            let object = unsafe { self.pdfium.FPDFPage_GetObject(page, index) };
            if object.is_null() {
                continue;
            }
            // SAFETY: an object of an open page.
            let kind = unsafe { self.pdfium.FPDFPageObj_GetType(object) };
            if kind == FPDF_PAGEOBJ_TEXT as c_int && read.contains(&(object as usize)) {
                before.clear();
                continue;
            }
            pictures.drawn.add(kind, || self.share(object, visible));
            let says = self.actual_text(object);
            // Several pictures may form one character.
            if !says.is_empty()
                && says != before
                && let Some(area) = self.area(object).filter(is_free)
            {
                pictures
                    .texts
                    .extend(glyphs_of_picture(&says, &area, object as usize));
            }
            before = says;
        }
        pictures
    }

    fn actual_text(&self, object: FPDF_PAGEOBJECT) -> String {
        // SAFETY: an object of an open page.
        let count = unsafe { self.pdfium.FPDFPageObj_CountMarks(object) };
        for index in 0..c_ulong::try_from(count).unwrap_or(0) {
            // SAFETY: an object of an open page, and an index that is in it.
            let mark = unsafe { self.pdfium.FPDFPageObj_GetMark(object, index) };
            if mark.is_null() {
                continue;
            }
            let text = decoded(&filled(|buffer: *mut u8, bytes| {
                let mut needed = 0;
                // SAFETY: a mark of an open page, and a buffer of the size that is passed.
                unsafe {
                    self.pdfium.FPDFPageObjMark_GetParamBlobValue(
                        mark,
                        "ActualText",
                        buffer.cast(),
                        bytes,
                        &raw mut needed,
                    );
                }
                needed
            }));
            if !text.is_empty() {
                return text;
            }
        }
        String::new()
    }

    fn area(&self, object: FPDF_PAGEOBJECT) -> Option<FS_RECTF> {
        let mut area = FS_RECTF {
            left: 0.0,
            top: 0.0,
            right: 0.0,
            bottom: 0.0,
        };
        // SAFETY: an object of an open page, and valid places for the results.
        let known = unsafe {
            self.pdfium.FPDFPageObj_GetBounds(
                object,
                &raw mut area.left,
                &raw mut area.bottom,
                &raw mut area.right,
                &raw mut area.top,
            )
        };
        (known != 0
            && [area.left, area.bottom, area.right, area.top]
                .iter()
                .all(|n| n.is_finite()))
        .then_some(area)
    }

    /// Returns the share of the visible part of the page that an object takes.
    fn share(&self, object: FPDF_PAGEOBJECT, visible: Option<FS_RECTF>) -> f32 {
        let size = |area: FS_RECTF| (area.right - area.left).abs() * (area.top - area.bottom).abs();
        match (self.area(object), visible) {
            (Some(area), Some(visible)) => size(area) / size(visible),
            _ => 0.0,
        }
    }
}

/// Spreads the text of a picture over its area, as characters side by side.
pub(super) fn glyphs_of_picture(text: &str, area: &FS_RECTF, object: usize) -> Vec<Glyph> {
    let (width, height) = (
        (area.right - area.left).abs(),
        (area.top - area.bottom).abs(),
    );
    let step = width / text.chars().count().max(1) as f32;
    let place = |(i, c): (usize, char)| Glyph {
        c,
        frame: Frame::of(
            area.left + step * i as f32,
            area.bottom + height * 0.2,
            0.0,
            step,
        ),
        size: height,
        object,
        new_line: i == 0,
    };
    text.chars()
        .filter(|c| !c.is_control())
        .enumerate()
        .map(place)
        .collect()
}
