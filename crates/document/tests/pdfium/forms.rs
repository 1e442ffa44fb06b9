//! Forms that are filled in, read with both readers.

use super::*;

/// A form with two fields that are filled in and drawn, one that is not drawn, one that is hidden,
/// and a note.
fn form() -> Vec<u8> {
    let drawn = |text: &str| {
        let drawing = format!("BT /F1 12 Tf 2 5 Td ({text}) Tj ET");
        stream(
            "/Type/XObject/Subtype/Form/BBox[0 0 200 20]/Resources<</Font<</F1<</Type/Font\
             /Subtype/Type1/BaseFont/Helvetica>>>>>>",
            &drawing,
        )
    };
    let field = |keys: &str, y: u32| {
        format!(
            "<</Type/Annot/Subtype/Widget/F 4/Rect[220 {y} 420 {}]{keys}>>",
            y + 20
        )
    };
    let objects = [
        "<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[5 0 R 6 0 R 7 0 R 8 0 R]>>>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".into(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Annots[5 0 R 6 0 R 7 0 R 8 0 \
         R 9 0 R]/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>"
            .into(),
        stream("", "BT /F1 12 Tf 72 750 Td (Name:) Tj 0 -50 Td (Town:) Tj ET"),
        field("/FT/Tx/T(name)/V(Greta Holm)/AP<</N 10 0 R>>", 745),
        field("/FT/Ch/T(town)/V(Bergen)/AP<</N 11 0 R>>", 695),
        field("/FT/Tx/T(street)/V(Harbour Road)", 645),
        "<</Type/Annot/Subtype/Widget/F 2/Rect[220 595 420 615]/FT/Tx/T(s)/V(Secret)>>".into(),
        "<</Type/Annot/Subtype/FreeText/F 4/Rect[72 545 272 565]/Contents(Paid in cash)\
         /AP<</N 12 0 R>>>>"
            .into(),
        drawn("Greta Holm"),
        drawn("Bergen"),
        drawn("Paid in cash"),
    ];
    file(&objects, true)
}

#[test]
fn fields_of_forms_and_notes_are_text() {
    let readers = reader().into_iter().chain([PdfReader::PDF_EXTRACT]);
    for reader in readers {
        let text = text(&reader, &form());
        for phrase in [
            "Name:",
            "Greta Holm",
            "Bergen",
            "Harbour Road",
            "Paid in cash",
        ] {
            assert_eq!(text.matches(phrase).count(), 1, "{text}");
        }
        assert!(!text.contains("Secret"), "{text}");
    }
}
