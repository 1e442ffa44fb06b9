# Compares two descriptions of the extension in a database, which catalog.sql writes: what an
# upgrade has led to, and what CREATE EXTENSION of the same version creates.
package RagCatalog;

use strict;
use warnings;
use Exporter 'import';
use JSON::PP ();

our @EXPORT = qw(described catalog_differences upgrade_statements);

# Reads the output of catalog.sql. Returns a list of properties.
sub described
{
	my ($output) = @_;
	my $json = JSON::PP->new->utf8(0);
	return [ map { $json->decode($_) } split /\n/, $output ];
}

sub key { return join "\0", @{ $_[0] }{qw(kind name property)} }
sub object { return join "\0", @{ $_[0] }{qw(kind name)} }
sub title { return "$_[0]{kind} $_[0]{name}" }
sub value { return $_[0]{value} // '' }

sub index_by
{
	my ($by, $properties) = @_;
	my %found;
	push @{ $found{ $by->($_) } }, $_ for @$properties;
	return \%found;
}

# Lines of one side only, for long values.
sub lines_apart
{
	my ($one, $other) = @_;
	my %other = map { $_ => 1 } split /\n/, $other;
	my @apart = grep { !$other{$_} } split /\n/, $one;
	return @apart ? @apart : ('(lines are in another order)');
}

# Returns a text for each difference.
sub catalog_differences
{
	my ($has, $wanted) = @_;
	my ($has_object, $wanted_object) = map { index_by(\&object, $_) } $has, $wanted;
	my $has_property = index_by(\&key, $has);
	my $wanted_property = index_by(\&key, $wanted);
	my (@differences, %told);
	for my $property (@$wanted)
	{
		if (!$has_object->{ object($property) })
		{
			push @differences, 'lacks ' . title($property)
			  unless $told{ object($property) }++;
			next;
		}
		my ($before) = @{ $has_property->{ key($property) } // [ {} ] };
		next if value($before) eq value($property);
		push @differences,
		  title($property) . ", $property->{property}:\n"
		  . join('', map { "  - $_\n" } lines_apart(value($before), value($property)))
		  . join('', map { "  + $_\n" } lines_apart(value($property), value($before)));
	}
	for my $property (@$has)
	{
		if (!$wanted_object->{ object($property) })
		{
			push @differences, 'has left ' . title($property)
			  unless $told{ object($property) }++;
		}
		elsif (!$wanted_property->{ key($property) })
		{
			push @differences, title($property) . ", $property->{property}:\n"
			  . join('', map { "  - $_\n" } split /\n/, value($property));
		}
	}
	return @differences;
}

# Returns statements that lead from the one to the other, as far as they can be derived. What must
# be written by hand is a comment.
sub upgrade_statements
{
	my ($has, $wanted) = @_;
	my ($has_object, $wanted_object) = map { index_by(\&object, $_) } $has, $wanted;
	my $has_property = index_by(\&key, $has);
	my $wanted_property = index_by(\&key, $wanted);
	my (@removals, @statements, @without, %is_new);

	for my $property (reverse @$has)
	{
		my $object = object($property);
		if (!$wanted_object->{$object})
		{
			push @removals, $property->{remove} if $property->{remove};
			next;
		}
		if (!$wanted_property->{ key($property) })
		{
			push @without, $property;
			next;
		}
		next if !$property->{recreates};
		my ($after) = @{ $wanted_property->{ key($property) } // [ {} ] };
		my ($from, $to) = (value($property), value($after));
		# CREATE OR REPLACE VIEW adds columns at the end
		next if $from eq $to || $property->{kind} eq 'view' && index($to, "$from, ") == 0;
		push @removals, $property->{remove} if $property->{remove};
		$is_new{$object} = 1;
	}
	for my $property (@$wanted)
	{
		my $object = object($property);
		my $is_new = !$has_object->{$object} || $is_new{$object};
		my ($before) = @{ $has_property->{ key($property) } // [] };
		next if $is_new && $property->{created};
		next if !$is_new && $before && value($before) eq value($property);
		next if $property->{property} eq 'initial privileges';
		next if $property->{recreates} && !defined $property->{make};
		# by default, PUBLIC may call new functions
		next
		  if $is_new
		  && value($property) eq ''
		  && $property->{property} !~ /^(exists|condition|privileges)$/;
		push @statements,
		  defined $property->{make}
		  ? $property->{make}
		  : by_hand($property, value($property));
	}
	for my $property (grep { !$is_new{ object($_) } } @without)
	{
		push @statements,
		  $property->{property} eq 'comment'
		  ? sprintf('COMMENT ON %s %s IS NULL;', uc $property->{kind}, $property->{name})
		  : by_hand($property, 'is no longer there');
	}
	return join '', map { "$_\n" } grep { $_ ne '' } unique(@removals), @statements;
}

sub by_hand
{
	my ($property, $value) = @_;
	$value =~ s/^/--   /mg;
	return '-- BY HAND: ' . title($property) . ", $property->{property}:\n$value";
}

sub unique
{
	my %seen;
	return grep { !$seen{$_}++ } @_;
}

1;
