//! Frequent words of languages, which tell them apart in short texts.
//!
//! Articles, prepositions, pronouns and the like are a third to a half of the words of a text, so
//! a sentence has some of them. The lists were written for this crate. `benches/run.sh languages`
//! measures what follows from them.

use std::{collections::HashMap, sync::LazyLock};

use whatlang::Lang;

use crate::script::{Script, of_letter};

/// A language, and some of its frequent words.
pub struct Frequent {
    /// Its code, as [`crate::detect`] returns it.
    pub code: &'static str,
    /// The language whose trigrams `whatlang` knows.
    pub trigrams: Option<Lang>,
    words: &'static str,
}

const fn of(code: &'static str, trigrams: Lang, words: &'static str) -> Frequent {
    Frequent {
        code,
        trigrams: Some(trigrams),
        words,
    }
}

const fn more(code: &'static str, words: &'static str) -> Frequent {
    Frequent {
        code,
        trigrams: None,
        words,
    }
}

#[rustfmt::skip]
pub static LANGUAGES: [Frequent; 58] = [
    // Latin
    of("en", Lang::Eng, "the of and to in is that it for was on with as be at by this are from \
        or an not have which you were has their but can will its been if would all we they your \
        our he she his her more when there what who how than into no please after do about"),
    of("de", Lang::Deu, "der die und das ist nicht mit den von zu auf für ein eine im dem des \
        sich auch als es an werden wird aus bei nach sie wir ich wurde wenn oder kann noch nur \
        über zum zur einen einer eines einem sind war hat haben wie so er ihr bitte aber durch \
        vor bis mehr"),
    of("fr", Lang::Fra, "le la les de des et est un une du en que qui pour dans sur pas au par \
        avec ce il ne se sont plus vous nous cette ou mais être aux été son sa ses leur je elle \
        ils on a ont fait comme tout très votre ces même l d c j n s qu"),
    of("es", Lang::Spa, "el la los las de que y en un una por con para del se no es al lo su \
        como más este esta pero sus ha o fue son muy hay sobre también cuando sin entre ser \
        desde todo era le me si ya está estos han nos sido uno"),
    of("pt", Lang::Por, "o a os as de que e do da em um uma para com não no na dos das por se \
        mais ao como foi são é seu sua ou pela pelo também já está você nos nas entre quando \
        muito ser tem sobre seus até isso aos às foram esta este"),
    of("it", Lang::Ita, "il la di che e un una per in del della non è con si le dei da al nel \
        sono più lo gli alla come ha anche delle questo ma ci o dal nella essere stato i degli \
        ed dalla questa nei sul su tra suo sua se ai alle dell l d"),
    of("nl", Lang::Nld, "de het een van en in is dat op te zijn met voor niet aan er om ook \
        als bij door maar naar uit heeft dan nog wordt worden deze dit ik je kan over hebben die \
        werd tot was we wij hij ze meer geen of zich bent jij uw"),
    of("sv", Lang::Swe, "och att det som en på är av för med den till inte om ett har de jag \
        var men så från kan vi eller när ska man sig vid också hade efter mycket inom blir mer \
        där alla kommer under där nu han hon skulle detta"),
    of("da", Lang::Dan, "og i at det en er til på af for med den der de ikke som har et jeg \
        var vil kan men fra om vi eller blev være også når skal efter mere hvor nu meget hvad \
        sig han du man ved blive efter denne efter under mod hun nogle bliver"),
    of("no", Lang::Nob, "og i det er på til en av for å som med at den ikke har de et jeg var \
        vil kan om vi men så fra eller etter ble også når skal seg blir mer noe være hva nå mye \
        ein ikkje dei eit eg frå vart meir noko vere kva mykje han du ved hvor alle hun"),
    of("fi", Lang::Fin, "ja on ei se että hän oli mutta ovat joka myös kun niin kuin sen tai \
        jos ole mukaan sekä vain nyt voi tämä ollut kanssa hänen olla jo vuonna minä mitä ne \
        jotka tästä siitä sitä vielä kuitenkin ennen"),
    of("et", Lang::Est, "ja on ei et see oli kui ka mis aga ning seda või siis oma nii ta \
        selle mida ma kes üks kuid veel juba olid olla tema pärast mitte välja üle eesti poolt"),
    of("hu", Lang::Hun, "a az és hogy nem is egy ez volt meg csak már de még kell mint vagy el \
        ha azt lehet van minden után ezt azonban lesz akkor fel több nagyon ki be sem így s \
        amely"),
    of("pl", Lang::Pol, "i w na z nie się do że to jest jak o po co za od ale tak przez dla \
        jego czy są tym był oraz może już przy które także ich jako być ze tylko która który \
        było pod we jej tego przed roku"),
    of("cs", Lang::Ces, "a v se na je že s z do o i to k ve pro za by ale si po jsem jako jsou \
        od který nebo jeho byl které bude tak až podle jen má není při která však jsme ze být \
        bylo již ještě která roce"),
    of("sk", Lang::Slk, "a v sa na je že s z do o i to k vo pre za by ale si po som ako sú od \
        ktorý alebo jeho bol ktoré bude tak až podľa len má nie pri ktorá však sme zo byť bolo \
        už ešte roku aj"),
    of("sl", Lang::Slv, "je in v na se da z so za bi ki pa ni tudi po kot s od do ali ter pri \
        še lahko bil sem bo ima če ne kar pred leta smo bilo zelo več iz med svoje sta bodo"),
    of("hr", Lang::Hrv, "i u je na se da su za od s ne o koji kao što ili iz bi sa koja će \
        biti nije samo te ali prema sve tijekom više ima može bio gdje poslije prije svijet dio \
        sam smo kako koje ovaj nakon tako uz njegov bez"),
    more("sr", "i u je na se da su za od ne koji kao što šta ili iz bi sa koja će biti nije \
        samo ali prema sve tokom više ima može bio gde posle pre svet deo lepo mesto ovde sam \
        smo kako takođe januara neko bez"),
    of("ro", Lang::Ron, "și de la în a cu că nu pe o este un din care pentru mai se au fost ca \
        dar sau prin după cel sunt lui către fi această al ale să ce am acest ei ne unei cele ar \
        îi şi iar"),
    of("ca", Lang::Cat, "de la i que el en a les els un una per amb és del no es al com més va \
        ha dels aquest aquesta són seva seu també o però pel han ser molt hi ho aquests si entre \
        l d s n als"),
    of("tr", Lang::Tur, "ve bir bu da de için ile olarak çok daha olan gibi en kadar sonra var \
        ne ama o her ki değil ya mi olduğu ise içinde tarafından hem veya bunu ben diye göre iki"),
    of("az", Lang::Aze, "və bir bu da də üçün ilə olan kimi ki çox daha o olaraq sonra isə \
        onun var edir edilir həm amma görə olub hər"),
    of("id", Lang::Ind, "yang dan di untuk dengan dari ini pada tidak dalam itu adalah akan ke \
        oleh sebagai juga atau ada karena saya bisa mereka lebih telah bahwa kami tersebut dapat \
        anda sudah kita seperti hanya saat tahun"),
    more("ms", "yang dan di untuk dengan ini pada tidak dalam itu adalah akan ke oleh sebagai \
        juga atau ada kerana saya boleh mereka lebih telah bahawa kami tersebut dapat ialah anda \
        sudah kita seperti hanya dari tahun daripada beliau berkata"),
    of("vi", Lang::Vie, "và của là có trong được một cho với không các người những đã để này \
        khi về từ cũng ở như nhiều trên đến thì tôi nó vào sẽ phải ra"),
    of("lt", Lang::Lit, "ir yra kad į iš su ne tai buvo už bet kaip apie dėl nuo jis per arba \
        po tik savo jau gali metų ar jo kurie nėra labai kai būti prie o"),
    of("lv", Lang::Lav, "un ir no ar ka uz par kas pie bet vai tas lai to viņš gan tā nav kā \
        arī pēc ja vēl tika ļoti jau es tiek var kur bija"),
    of("af", Lang::Afr, "die en van in is nie het om te vir wat met dat op n hy was sy aan sal \
        ek ook kan word ons deur hulle daar"),
    of("eo", Lang::Epo, "la de kaj en estas al ne por ke kiel pri ĝi li kun estis sed aŭ el mi \
        oni tio ĉi pli"),
    of("la", Lang::Lat, "et in est ad non ut cum sed qui quod ex per esse quae ab sunt enim \
        atque nec si autem"),
    of("tl", Lang::Tgl, "ang ng sa na mga at ay ito si para hindi kung ni ko siya rin isang \
        nang mo ako niya kanyang"),
    of("cy", Lang::Cym, "y yr yn a i ar o mae wedi ei am gan bod yw fel oedd nid gyda ond sydd \
        hefyd eu ac un yng"),
    of("uz", Lang::Uzb, "va bu bilan uchun bir ham edi deb uning esa"),
    more("sw", "ya na wa kwa ni katika za la kuwa hii cha hiyo kama yake lakini huo wake sana"),
    more("is", "og að í á er sem til við með það um ekki en var fyrir hann eru af frá hafa \
        verið eða þá ég þessi þess hefur hún"),
    more("ga", "na an agus is i ar le go do a ag sé bhí tá sin níl leis ach seo chun faoi mar \
        sa nó siad bhfuil bheith raibh féin don"),
    more("eu", "eta da ez bat dira zen du dute ere izan baina egin bere hau den edo zuen behar \
        duen beste gure dela ziren dio dituzte hori"),
    more("sq", "të e në dhe një për me që është nga i si se nuk më do ka por u janë kjo ky \
        ishte duke edhe tij"),
    // Cyrillic
    of("ru", Lang::Rus, "и в не на что с по как это из у за от для же так но он вы мы все был \
        или к быть при его также только я бы о она до то если были этого которые"),
    of("uk", Lang::Ukr, "і в не на що з як та це до у за від для але він так ми бути або був \
        його також після є й щоб які про я вони ж"),
    of("be", Lang::Bel, "і ў не на што з як гэта да за для але ён так мы або быў яго таксама \
        пасля якія у ад я па ж"),
    of("bg", Lang::Bul, "и в не на че с за се да от по са е като но или той при до това които \
        си беше ще към един бе във със"),
    of("mk", Lang::Mkd, "и во не на дека со за се да од по се е како но или тој при до ова кои \
        што ќе беше му со"),
    of("sr", Lang::Srp, "и у не на да са за се од по су је као али или он при до то који што \
        ће би из није"),
    // Arabic
    of("ar", Lang::Ara, "في من على أن إلى هذا التي عن مع كان ما لا هو الذي أو هذه كما لم بعد \
        قد و وفي كانت"),
    of("fa", Lang::Pes, "در و به از که این را با است برای آن یک تا بر می شود خود هم کرد های"),
    of("ur", Lang::Urd, "کے میں کی ہے اور سے کا کو اس پر نے یہ ہیں کہ بھی تھا ایک گیا"),
    // Devanagari
    of("hi", Lang::Hin, "के में की है और से का को पर यह हैं कि एक नहीं भी लिए था ने हो कर तो"),
    of("mr", Lang::Mar, "आहे आणि या च्या व हे ते होते मध्ये नाही आहेत तर की तो हा ही"),
    of("ne", Lang::Nep, "र को छ मा हो गर्न गरेको पनि भएको छन् यो ले लागि"),
    // Hebrew
    of("he", Lang::Heb, "של את על לא הוא זה עם כי גם היא או אם כל יש"),
    of("yi", Lang::Yid, "און די אין איז פון דער מיט נישט פֿון האט צו"),
    // languages that whatlang knows, and no words are listed here
    of("jv", Lang::Jav, ""),
    of("zu", Lang::Zul, ""),
    of("ak", Lang::Aka, ""),
    of("sn", Lang::Sna, ""),
    of("tk", Lang::Tuk, ""),
];

impl Frequent {
    /// Returns the script that its words are written in.
    pub fn script(&self) -> Script {
        let letter = self.words.chars().find_map(of_letter);
        letter.map_or(Script::Latin, |(script, _)| script)
    }
}

/// Places in [`LANGUAGES`] of the languages that have a word.
static INDEX: LazyLock<HashMap<&'static str, Vec<u8>>> = LazyLock::new(|| {
    let mut index: HashMap<&str, Vec<u8>> = HashMap::new();
    for (place, language) in LANGUAGES.iter().enumerate() {
        for word in language.words.split_whitespace() {
            let places = index.entry(word).or_default();
            if places.last() != Some(&(place as u8)) {
                places.push(place as u8);
            }
        }
    }
    index
});

/// Returns the number of frequent words in a text for each of [`LANGUAGES`].
pub fn counts(words: &str) -> [usize; LANGUAGES.len()] {
    let mut counts = [0; LANGUAGES.len()];
    let known = words.split([' ', '\'', '’']);
    for place in known.filter_map(|word| INDEX.get(word)).flatten() {
        counts[usize::from(*place)] += 1;
    }
    counts
}
