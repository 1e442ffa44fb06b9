# PDFs for tests.
package RagPdf;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(pdf_file stream font_without_table);

# A PDF of pages with these drawings. Helvetica is F1, the objects in `more` follow the pages, and
# the first of them is the font F2.
sub pdf_file
{
	my ($drawings, %option) = @_;
	my $after = 4 + 2 * @$drawings;
	my @objects = (
		'<</Type/Catalog/Pages 2 0 R>>',
		'<</Type/Pages/Kids['
		  . join(' ', map { (4 + 2 * $_) . ' 0 R' } 0 .. $#$drawings)
		  . ']/Count '
		  . @$drawings . '>>',
		'<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>');
	foreach my $drawing (@$drawings)
	{
		my $contents = @objects + 2;
		push @objects,
			'<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]'
		  . ($option{page} // '')
		  . "/Contents $contents 0 R/Resources<</Font<</F1 3 0 R/F2 $after 0 R>>>>>>",
		  $drawing =~ /^<</ ? $drawing : stream($drawing);
	}
	push @objects, @{ $option{more} // [] };
	my ($file, $table) = ("%PDF-1.4\n", "xref\n0 " . (@objects + 1) . "\n0000000000 65535 f \n");
	foreach my $i (0 .. $#objects)
	{
		$table .= sprintf "%010d 00000 n \n", length $file;
		$file .= ($i + 1) . " 0 obj\n$objects[$i]\nendobj\n";
	}
	my $start = $option{without_table} ? 7 : length $file;
	$file .= $table unless $option{without_table};
	return $file . 'trailer<</Size ' . (@objects + 1) . "/Root 1 0 R>>\nstartxref\n$start\n%%EOF\n";
}

sub stream
{
	my ($bytes, $dictionary) = @_;
	return '<<' . ($dictionary // '') . '/Length ' . length($bytes) . ">>stream\n$bytes\nendstream";
}

# A font that does not map its glyphs to characters.
sub font_without_table
{
	return
		'<</Type/Font/Subtype/Type0/BaseFont/Unknown/Encoding/Identity-H/DescendantFonts['
	  . '<</Type/Font/Subtype/CIDFontType2'
	  . '/BaseFont/Unknown/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/DW '
	  . '1000>>]>>';
}

1;
