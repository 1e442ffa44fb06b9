# The documentation: each example runs and prints what its page shows, and each generated part says
# what the database says. RAG_DOCS names single pages. With RAG_DOCS_ACCEPT the present output
# becomes the expected one: pages that change are written below TESTDIR/pages.
use strict;
use warnings;
use Encode qw(decode encode);
use File::Basename qw(basename);
use File::Find ();
use PostgreSQL::Test::Utils;
use Test::More;
use RagCluster;
use RagDocTables;
use RagDocs;

my $root = $ENV{RAG_TEST_PAGES} or die 'RAG_TEST_PAGES is not set';
my $accepted = $ENV{RAG_DOCS_ACCEPT} ? "$ENV{TESTDIR}/pages" : undef;

my @all;
my $find = sub { push @all, $File::Find::name =~ s{^\Q$root\E/}{}r if /\.md$/ };
File::Find::find({ wanted => $find, no_chdir => 1 }, $root);
@all = sort @all;
my %text = map { $_ => decode('UTF-8', slurp_file("$root/$_")) } @all;
my @named = grep { $_ ne '' } split / /, $ENV{RAG_DOCS} // '';
exists $text{$_} or die "there is no page $_" for @named;

# Each function has one heading of its own below docs/reference.
my (%page_of, %section, @twice);
for my $page (grep { m{^docs/reference/} } @all)
{
	while ($text{$page} =~ /^## (rag_\w+)\n(.*?)(?=^## |\z)/msg)
	{
		push @twice, $1 if exists $page_of{$1};
		($page_of{$1}, $section{$1}) = (basename($page), $2);
	}
}

my $node = rag_node('docs', conf => "rag.allowed_private_hosts = '127.0.0.1'\n");
$node->safe_psql('postgres', 'CREATE ROLE postgres SUPERUSER LOGIN')
  unless getpwuid($>) eq 'postgres';
my @names = example_names($ENV{RAG_TEST_FILES});
my $roles =
  $node->safe_psql('postgres', "SELECT string_agg(quote_literal(rolname), ', ') FROM pg_roles");
# without LOAD a session does not know the settings
my $ask = sub { return decode('UTF-8', $node->safe_psql('postgres', "LOAD 'rag'; $_[0]")) };

for my $name (@named ? @named : @all)
{
	my $page = eval { read_page($text{$name}) };
	if (!$page) { fail("$name can be read"); diag($@); next }
	my @edits = (check_generated($name, $page), check_examples($name, $page));
	next unless @edits;
	replace_lines($page, @edits);
	write_file("$accepted/$name", encode('UTF-8', page_text($page)));
}
check_completeness() unless @named;
done_testing();

sub check_generated
{
	my ($name, $page) = @_;
	my @edits;
	for my $part (@{ $page->{generated} })
	{
		my $present = join "\n", @{ $page->{lines} }[ $part->{from} .. $part->{to} - 1 ];
		my $lines = eval { generated_lines($ask, $part->{what}, \%page_of) };
		my $error = $@;
		if (defined $lines && $present ne $lines && $accepted)
		{
			push @edits, [ $part->{from}, $part->{to}, $lines ];
			next;
		}
		my $is_right = defined $lines && $present eq $lines;
		ok($is_right, "$name:$part->{line}: the database says the same: $part->{what}")
		  or diag(encode('UTF-8', defined $lines ? "it says\n$lines" : $error));
	}
	return @edits;
}

sub check_examples
{
	my ($name, $page) = @_;
	return unless @{ $page->{examples} };
	my $creates = grep { $_->{sql} =~ /CREATE EXTENSION rag\b/ } @{ $page->{examples} };
	$node->safe_psql('postgres', 'CREATE DATABASE docs');
	$node->safe_psql('docs', 'CREATE EXTENSION rag', extra_params => [ '--username', 'postgres' ])
	  unless $creates;
	my @output = run_page($node, 'docs', $page, @names);
	clean_up();
	my @edits;
	for my $example (@{ $page->{examples} })
	{
		my $output = shift @output;
		my $expected = $example->{expected};
		my $fits = !defined $expected || output_fits($output, $expected);
		my $may_fail = defined $expected && $expected =~ /^ERROR\b/m;
		my $has_failed =
		  $output =~ /^(?:ERROR|FATAL|PANIC):|^invalid command|^connection to server/m;
		if (!$fits && $accepted && ($may_fail || !$has_failed))
		{
			push @edits, [ $example->{from}, $example->{to}, shown($output, $expected) ];
			note(encode('UTF-8', "$name:$example->{line}: accepted:\n$output"));
			next;
		}
		my $is_right = $fits && ($may_fail || !$has_failed);
		ok($is_right, "$name:$example->{line}: the example does what the page shows")
		  or diag(encode('UTF-8', "$example->{sql}\nIts output:\n$output"));
	}
	return @edits;
}

# Takes away what a page may have left for the next one.
sub clean_up
{
	$node->safe_psql('postgres', 'DROP DATABASE docs WITH (FORCE)');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET ALL');
	unlink $node->data_dir . '/pg_rag/secret.key';
	$node->reload;
	my $created = $node->safe_psql('postgres',
		"SELECT string_agg(quote_ident(rolname), ', ') FROM pg_roles
		WHERE rolname NOT IN ($roles)");
	$node->safe_psql('postgres', "DROP ROLE $created") if $created ne '';
	return;
}

# What the reference must describe, and where links lead.
sub check_completeness
{
	is(join(', ', @twice), '', 'no function has two headings');
	my @missing;
	for my $function (public_functions($ask))
	{
		my ($name, @words) = @$function;
		my $section = $section{$name};
		if (!defined $section) { push @missing, "$name has no section"; next }
		push @missing, map { "$name does not tell of $_" }
		  grep { $section !~ /^\| .*`\Q$_\E`.*? \|/m } @words;
		push @missing, "$name has no example" unless $section =~ /^```sql$/m;
	}
	is(join("\n", @missing), '', 'functions have a section with arguments, columns and an example');

	my @settings = split /\n/,
	  $ask->("SELECT name FROM pg_settings WHERE name LIKE 'rag.%' ORDER BY name");
	is(join(', ', without_section('settings', @settings)), '', 'each setting has a section');
	my @relations = readable_relations($ask);
	is(join(', ', without_section('views', @relations)), '', 'each view and table has a section');
	is(join(', ', unlisted()), '', 'each page is listed in the README.md of its folder');
	is(join("\n", map { broken_links($_) } @all), '', 'links lead to a page and a heading');
	return;
}

sub without_section
{
	my ($page, @objects) = @_;
	my $text = $text{"docs/reference/$page.md"} // '';
	return grep { $text !~ /^## \Q$_\E$/m } @objects;
}

sub unlisted
{
	my @unlisted;
	for my $name (grep { m{^docs/} && !m{/README\.md$} } @all)
	{
		my ($folder, $file) = $name =~ m{^(.*/)(.*)$};
		push @unlisted, $name unless ($text{"${folder}README.md"} // '') =~ /\]\(\Q$file\E[)#]/;
	}
	return @unlisted;
}

# Links of a page to pages that do not exist, or to headings that these do not have.
sub broken_links
{
	my ($name) = @_;
	my $folder = $name =~ m{^(.*/)} ? $1 : '';
	my $text = $text{$name} =~ s/^```.*?^```\s*$//msgr;
	my @broken;
	while ($text =~ /\]\(([^)\s]+)\)/g)
	{
		my $link = $1;
		next if $link =~ m{^\w+:};
		my ($path, $anchor) = split /#/, $link, 2;
		my $target = $path eq '' ? $name : "$folder$path";
		1 while $target =~ s{[^/]+/\.\./}{};
		# other files of the repository are not here
		next unless $target =~ m{^docs/|^(?:README|CONTRIBUTING)\.md$};
		next if $target !~ /\.md$/ && -f "$root/$target"; # a picture
		if (!exists $text{$target}) { push @broken, "$name: $link"; next }
		next unless defined $anchor;
		push @broken, "$name: $link" unless grep { $_ eq $anchor } anchors($text{$target});
	}
	return @broken;
}

# As GitHub derives them from headings.
sub anchors
{
	my $text = $_[0] =~ s/^```.*?^```\s*$//msgr;
	my @headings = map { s/\[([^\]]*)\]\([^)]*\)/$1/gr } $text =~ /^#+ +(.*?)\s*$/mg;
	return map { lc(s/[^\w\s-]//gr =~ s/ /-/gr) } @headings;
}
